"""Where random streams are: the generators that can be reached from an object, each with a name that says how."""

import random
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random, torch.Generator)
#: Nothing can be reached from these.
_LEAVES = (
    bool, int, float, complex, str, bytes, bytearray, type(None), type(Ellipsis), type, types.ModuleType, np.ndarray,
    np.generic, np.dtype, torch.Tensor, torch.dtype, torch.device, torch.nn.Module, torch.optim.Optimizer,
)  # fmt: skip
_LEAF_TYPES = frozenset(_LEAVES)  # which are told at once
_BUILTINS = (types.BuiltinMethodType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType)
_FUNCTIONS = (types.FunctionType, types.MethodType, partial, *_BUILTINS)
_CONTAINERS = (Mapping, list, tuple, deque, set, frozenset)
#: Attributes that lead from one layer of an environment to the next ones, which are no deeper.
_LAYERS = frozenset(("env", "user_env", "envs", "unwrapped"))
_DEPTH = 5
_LONGEST = 256  # of longer lists, tables of data, no part is looked at
_GLOBAL = (random.random.__self__, np.random.mtrand._rand)  # type: ignore[attr-defined]


class Reachable:
    """The streams that can be reached from some objects, by attributes, parts and what functions hold.

    Environments are followed layer by layer, and vector environments into those that they are made of. Of functions
    come what they are bound to, closures, defaults, and the globals that they name. Spaces and environments that have
    yet to make their generator make it.

    Args:
        is_wanted: What is looked for in the place of streams; it may be other objects, into which nobody looks.

    Attributes:
        found: The generators, by name.
        unknown: Names of what a function holds that may draw, and whose state nobody knows.
    """

    def __init__(self, is_wanted: Callable[[Any], bool] = lambda value: isinstance(value, GENERATORS)) -> None:
        self._is_wanted = is_wanted
        self.found: dict[str, Any] = {}
        self.unknown: list[str] = []
        self._seen: dict[int, Any] = {id(stream): stream for stream in _GLOBAL}  # kept, so that no id comes again

    def visit(self, value: Any, name: str, depth: int = 0, in_function: bool = False) -> None:
        """Look at an object, and at what can be reached from it."""
        if type(value) in _LEAF_TYPES or isinstance(value, _LEAVES) or id(value) in self._seen or depth > _DEPTH:
            return
        self._seen[id(value)] = value
        if isinstance(value, random.SystemRandom):
            self.unknown.append(name)
        elif self._is_wanted(value):
            self.found[name] = value
        else:
            parts = _parts_of(value, name)
            if parts is None:
                self.unknown += [name] * in_function
                return
            held = isinstance(value, _FUNCTIONS) or (in_function and isinstance(value, _CONTAINERS))
            for attribute, part_name, part in parts:
                self.visit(part, part_name, depth + (attribute not in _LAYERS), held)


def _parts_of(value: Any, name: str) -> Iterator[tuple[str, str, Any]] | None:
    """The parts as (attribute, name, part); None if nobody can tell."""
    if isinstance(value, _FUNCTIONS):
        return ((key, f"{name}.{key}", part) for key, part in _held_by(value))
    if isinstance(value, Mapping):
        items: Mapping[Any, Any] = value if len(value) <= _LONGEST else {}
        # Of other keys the text is of this process alone or, as of a tensor, long.
        keys = (repr(key) if isinstance(key, str | int) else f"#{i}" for i, key in enumerate(items))
        return (("", f"{name}[{key}]", part) for key, part in zip(keys, items.values(), strict=True))
    if isinstance(value, _CONTAINERS):
        listed = value if len(value) <= _LONGEST else ()
        # The parts of `envs` are as deep as it is.
        return (("envs" * name.endswith(".envs"), f"{name}[{i}]", part) for i, part in enumerate(listed))
    if "observation_space" not in name:  # nobody draws observations
        _make_generator(value)
    attributes = getattr(value, "__dict__", None)
    if attributes is None:
        return None
    return ((key, f"{name}.{key}", part) for key, part in list(attributes.items()))


def _held_by(function: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(function, partial):
        yield from (("func", function.func), ("args", function.args), ("keywords", function.keywords))
    elif isinstance(function, types.MethodType):
        yield from (("__self__", function.__self__), ("__func__", function.__func__))
    elif not isinstance(function, types.FunctionType):
        yield "__self__", getattr(function, "__self__", None)
    else:
        yield from (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__))
        for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if cell != types.CellType():
                yield key, cell.cell_contents
        for key in _names_in(function.__code__):
            yield key, function.__globals__.get(key)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _make_generator(value: Any) -> None:
    """Let a space or an environment make the generator that it would make at its first draw."""
    kind = type(value)
    if not hasattr(kind, "np_random") or getattr(value, "_np_random", True) is not None:
        return
    is_space, is_env = hasattr(kind, "sample"), hasattr(kind, "reset") and "env" not in vars(value)
    # Asking a space made of others for a generator it does not have yet would seed the others.
    if is_env or (is_space and not any(key.endswith(("space", "spaces")) for key in vars(value))):
        _ = value.np_random
