"""Search for random generators that can be reached from an object. The name of a generator is its path."""

import contextlib
import io
import logging
import random
import re
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Set
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import numpy as np
import torch

GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random, torch.Generator)
#: Types of objects from which nothing can be reached.
_LEAVES = (
    bool, int, float, complex, str, bytes, bytearray, type(None), type(Ellipsis), types.ModuleType, np.ndarray,
    np.generic, np.dtype, torch.Tensor, torch.dtype, torch.device, logging.Logger, logging.Handler, io.IOBase,
    re.Pattern, range, slice, weakref.ref, types.UnionType, types.GenericAlias,
)  # fmt: skip
_LEAF_TYPES = frozenset(_LEAVES)  # for a faster check of the exact type
_BUILTINS = (types.BuiltinMethodType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType)
_FUNCTIONS = (types.FunctionType, types.MethodType, partial, *_BUILTINS)
_CONTAINERS = (Mapping, list, tuple, deque, set, frozenset)
#: Attributes that lead from a wrapper to its environments. They do not increase the depth of the search.
_LAYERS = frozenset(("env", "user_env", "envs", "unwrapped"))
_MAX_DEPTH = 12
_MAX_OBJECTS = 50_000  # maximum number of visited objects
#: A container is treated as a table of data and skipped if its first `_MAX_PROBED` items contain no generator, and if
#: it is longer than `_MAX_LENGTH` or its items have the types `_ROW_TYPES`.
_MAX_LENGTH, _MAX_PROBED, _ROW_TYPES = 256, 16, (dict, list, tuple)
#: torch's own attributes of modules and optimisers.
_MODULE_ATTRIBUTES = vars(torch.nn.Module()).keys() - {"_forward_hooks", "_forward_pre_hooks"}
# `step` is an attribute if a schedule counts the calls of `step`.
_OPTIMIZER_ATTRIBUTES = frozenset(("state", "param_groups", "defaults", "step"))
#: Libraries whose functions use only the global streams.
_LIBRARIES = frozenset(("torch", "numpy"))
#: Types of the owners (`__self__`) of functions of extension modules. No other object can be reached from them.
_EXTENSION_OWNERS = ("PyCapsule", "pybind11_detail")
_GLOBAL = (random.random.__self__, np.random.mtrand._rand)  # type: ignore[attr-defined]


class Reachable:
    """Search for the random generators that can be reached from some objects.

    The search follows attributes, parts of containers, and objects that functions refer to:

    - attributes of objects, also in slots, attributes of their classes, and of modules and submodules (not tensors);
    - the action spaces of environments, also if they are properties;
    - the layers of wrapped environments, and the environments inside vector environments;
    - the object that a function is bound to, its closure, its defaults, and the globals that it uses.

    Some spaces and environments create their generator only at the first sample. The search creates such a generator
    immediately. If a class has `has_no_rng = True`, its objects are skipped.

    Args:
        is_wanted: Function that returns True for the objects to find. By default these are random generators. The
            search does not continue inside these objects.

    Attributes:
        found: The objects for which `is_wanted` returns True, keyed by name. A name is the path to the object.
        unknown: Names of objects that may use random numbers, but were not searched: objects that functions use,
            objects that are nested too deeply, and objects beyond the maximum number.
    """

    def __init__(self, is_wanted: Callable[[Any], bool] = lambda value: isinstance(value, GENERATORS)) -> None:
        self._is_wanted = is_wanted
        self.found: dict[str, Any] = {}
        self.unknown: list[str] = []
        self._is_full = False
        self._seen: dict[int, Any] = {id(stream): stream for stream in _GLOBAL}  # kept alive, so that ids stay unique

    def visit(self, value: Any, name: str, depth: int = 0, in_function: bool = False) -> None:
        """Search an object and everything that can be reached from it.

        Args:
            value: The object.
            name: Name of the object, the first part of the names in `found`.
            depth: Number of steps from the first object to this object.
            in_function: True if a function refers to the object.
        """
        if type(value) in _LEAF_TYPES or isinstance(value, _LEAVES) or id(value) in self._seen:
            return
        if getattr(type(value), "has_no_rng", False) is True:
            return
        if depth > _MAX_DEPTH or len(self._seen) > _MAX_OBJECTS:
            self.unknown += [name] * (depth > _MAX_DEPTH or not self._is_full)
            self._is_full = len(self._seen) > _MAX_OBJECTS
            return
        if isinstance(value, type):
            self._visit_class(value, name, depth)
            return
        self._seen[id(value)] = value
        if isinstance(value, random.SystemRandom):
            self.unknown.append(name)
        elif self._is_wanted(value):
            while name in self.found:  # a class and its base class may have the same name
                name += "'"
            self.found[name] = value
        else:
            self._visit_parts(value, name, depth, in_function)

    def _visit_parts(self, value: Any, name: str, depth: int, in_function: bool) -> None:
        is_container = isinstance(value, _CONTAINERS)
        in_function_next = isinstance(value, _FUNCTIONS) or (in_function and is_container)
        parts, n_before = _parts_of(value, name), len(self.found) + len(self.unknown)
        if parts is None:
            self.unknown += [name] * in_function
            return
        for number, (attribute, part_name, part) in enumerate(parts):
            may_be_table = is_container and number == _MAX_PROBED and len(self.found) + len(self.unknown) == n_before
            if may_be_table and (len(value) > _MAX_LENGTH or type(part) in _ROW_TYPES):
                return
            if type(part) not in _LEAF_TYPES:
                self.visit(part, part_name, depth + (attribute not in _LAYERS), in_function_next)
        if not is_container:
            self._visit_class(type(value), name, depth)

    def _visit_class(self, kind: type, name: str, depth: int) -> None:
        """Search the attributes of a class and its base classes, except functions and descriptors."""
        for each in kind.__mro__ if id(kind) not in self._seen else ():
            if id(each) not in self._seen:
                self._seen[id(each)] = each
                for key, part in list(vars(each).items()):
                    if not (key.startswith("__") or hasattr(type(part), "__get__")):
                        self.visit(part, f"{name}.{each.__qualname__}.{key}", depth + 1)


def _parts_of(value: Any, name: str) -> Iterator[tuple[str, str, Any]] | None:
    """Return the attributes or items of an object as (attribute, name, value). None if they cannot be determined."""
    if isinstance(value, _FUNCTIONS):
        return ((key, f"{name}.{key}", part) for key, part in _parts_of_function(value))
    if isinstance(value, Mapping):
        # The text of other keys may differ between processes or be long, for example the text of a tensor.
        keys = (repr(key) if isinstance(key, str | int) else f"#{i}" for i, key in enumerate(list(value)))
        return (("", f"{name}[{key}]", part) for key, part in zip(keys, list(value.values()), strict=True))
    if isinstance(value, _CONTAINERS):
        # The items of `envs` have the depth of `envs`. The list is a copy, because other threads may change a set or
        # deque.
        return (("envs" * name.endswith(".envs"), f"{name}[{i}]", part) for i, part in enumerate(list(value)))
    if "observation_space" not in name:  # observations are not sampled from their space
        _make_generator(value)
    slots = list(_slots_of(value))
    if isinstance(value, torch.nn.Module):  # submodules have the depth of the module
        own = _attributes(value, name, _MODULE_ATTRIBUTES)
        return chain(own, (("env", f"{name}.{key}", part) for key, part in value.named_children()))
    attributes = getattr(value, "__dict__", None)
    if attributes is None and not slots:
        return None
    own = _attributes(value, name, _OPTIMIZER_ATTRIBUTES if isinstance(value, torch.optim.Optimizer) else frozenset())
    return chain(own, ((key, f"{name}.{key}", part) for key, part in [*slots, *_spaces_of(value)]))


def _attributes(value: Any, name: str, ignored: Set[str]) -> Iterator[tuple[str, str, Any]]:
    return (
        (key, f"{name}.{key}", part)
        for key, part in list(getattr(value, "__dict__", {}).items())
        if type(part) not in _LEAF_TYPES and key not in ignored and (type(part) is not OrderedDict or part)
    )


def _slots_of(value: Any) -> Iterator[tuple[str, Any]]:
    kind: Any = type(value)
    for key, slot in _slots(kind):
        with contextlib.suppress(AttributeError):  # an empty slot
            yield key, slot.__get__(value)


def _spaces_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the action spaces of an environment. They may be properties."""
    if hasattr(type(value), "step") and hasattr(type(value), "reset"):
        for key in ("action_space", "single_action_space"):
            with contextlib.suppress(Exception):  # user code may raise anything
                yield key, getattr(value, key)


@lru_cache(1024)
def _slots(kind: type) -> list[tuple[str, Any]]:
    attributes = (vars(each) for each in kind.__mro__ if "__slots__" in vars(each))
    return [(key, slot) for own in attributes for key, slot in own.items() if type(slot) is types.MemberDescriptorType]


def _parts_of_function(function: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(function, partial):
        yield from (("func", function.func), ("args", function.args), ("keywords", function.keywords))
    elif isinstance(function, types.MethodType):
        yield from (("__self__", function.__self__), ("__func__", function.__func__))
    elif not isinstance(function, types.FunctionType):
        owner = getattr(function, "__self__", None)
        yield "__self__", None if type(owner).__name__.startswith(_EXTENSION_OWNERS) else owner
    else:
        yield from (("__defaults__", function.__defaults__), ("__kwdefaults__", function.__kwdefaults__))
        for key, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if cell != types.CellType():
                yield key, cell.cell_contents
        library = str(function.__module__).partition(".")[0] in _LIBRARIES
        for key in () if library else _names_in(function.__code__):
            yield key, function.__globals__.get(key)


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _make_generator(value: Any) -> None:
    """Create the generator of a space or an environment now, if it would be created at the first sample."""
    kind = type(value)
    if not hasattr(kind, "np_random") or getattr(value, "_np_random", True) is not None:
        return
    is_space, is_env = hasattr(kind, "sample"), hasattr(kind, "reset") and "env" not in vars(value)
    # A composite space without a generator would seed its parts when `np_random` is read.
    if is_env or (is_space and not any(key.endswith(("space", "spaces")) for key in vars(value))):
        _ = value.np_random
