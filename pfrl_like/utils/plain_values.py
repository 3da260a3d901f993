"""Exact conversions to JSON and back, of actions, observations, states, and parts chosen by name."""

import base64
import copy
import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_KINDS = "biufcUSmM"
_MOST_DIMENSIONS = 64  # NumPy's limit; torch has none
#: Limit on the nesting of JSON values, and the nesting of a single array or scalar.
_LEVELS, _LEAST = 22, 3


def to_json(value: Any, levels: int = _LEVELS) -> Any:
    """Nested dicts, lists and tuples of None, numbers, text, bytes, arrays and tensors, in a form for `from_json`.

    Args:
        value: The value.
        levels: Limit on the nesting of JSON values; a dict takes three levels, a tuple two, a list one.

    Raises:
        TypeError: If it holds something else, or is nested more deeply.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is float:  # NaN and infinity, which JSON lacks
        return {"float": str(value)}
    if levels < _LEAST:
        raise TypeError("it is nested too deeply to be saved")
    if isinstance(value, Tensor):
        return {"tensor": _text_of_tensor(value)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS:
        return {"array" if isinstance(value, np.ndarray) else "scalar": _text_of(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"dict": [[to_json(key, levels - 3), to_json(part, levels - 3)] for key, part in value.items()]}
    if isinstance(value, tuple | list):
        is_list = isinstance(value, list)
        parts = [to_json(part, levels - (1 if is_list else 2)) for part in value]
        return parts if is_list else {"tuple": parts}
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):  # a lazy stack
        return to_json(np.asarray(value))
    raise TypeError(f"{type(value).__name__} cannot be saved")


def from_json(value: Any) -> Any:
    """The value that was given to `to_json` or `many_to_json`.

    Raises:
        ValueError: If it is no such value.
    """
    try:
        return _from_json(value)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise ValueError(f"it is {value!r:.100}, which is no saved value") from error


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "stack" in value:
        stack = _array_of(*value["stack"])
        if not stack.nbytes:
            raise ValueError("a stack of nothing")
        return list(stack) if value["scalars"] or stack.ndim > 1 else [np.array(item) for item in stack]
    [(kind, content)] = value.items()
    if kind == "tuple":
        return tuple(_from_json(part) for part in content)
    if kind == "dict":
        return {_from_json(key): _from_json(part) for key, part in content}
    if kind == "float":
        return float(content)
    if kind == "bytes":
        return base64.b64decode(content, validate=True)
    if kind == "tensor":
        return _tensor_of(*content)
    if kind not in ("array", "scalar"):
        raise ValueError(kind)
    array = _array_of(*content)
    return array[()] if kind == "scalar" else array


def many_to_json(values: Sequence[Any]) -> Any:
    """A list of values; similar arrays are stored as one array, which is shorter.

    Raises:
        TypeError: If a value holds something else than `to_json` allows, or is nested more deeply.
    """
    kinds = {(type(value), getattr(value, "dtype", None), getattr(value, "shape", None)) for value in values}
    alike = len(kinds) == 1 and isinstance(values[0], np.ndarray | np.generic) and values[0].dtype.kind in _KINDS
    if alike and values[0].nbytes:  # for empty arrays a short text could claim any number of values
        return {"stack": _text_of(np.stack(values)), "scalars": isinstance(values[0], np.generic)}
    return [to_json(value) for value in values]


def _text_of(array: NDArray[Any]) -> list[Any]:
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def _array_of(dtype: str, shape: Sequence[int], text: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        raise ValueError(dtype)
    return np.frombuffer(base64.b64decode(text, validate=True), kind).reshape(shape).copy()


def _text_of_tensor(tensor: Tensor) -> list[Any]:
    try:
        whole = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        content = base64.b64encode(whole.reshape(-1).view(torch.uint8).numpy().tobytes()).decode()
    except (RuntimeError, TypeError) as error:  # sparse, quantised, without data
        raise TypeError(f"a tensor of this kind cannot be saved: {error!s:.100}") from error
    return [str(tensor.dtype), list(tensor.shape), content, tensor.requires_grad]


def _tensor_of(dtype: str, shape: Sequence[int], text: str, requires_grad: bool) -> Tensor:
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{len(shape)} dimensions")
    kind = getattr(torch, dtype.removeprefix("torch."))
    content = np.frombuffer(base64.b64decode(text, validate=True), np.uint8).copy()
    return torch.from_numpy(content.reshape(-1, kind.itemsize)).view(kind).reshape(shape).requires_grad_(requires_grad)


class Configurable(ABC):
    """Object that can be rebuilt from the name of its type and its constructor's arguments."""

    type_name: ClassVar[str]

    def get_type(self) -> str:
        """Name of the type, by which a user chooses it."""
        return self.type_name

    @abstractmethod
    def _params(self) -> dict[str, Any]:
        """Constructor's arguments that make an equal object."""

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Constructor's arguments that make an equal object, by name.

        Args:
            deep: Whether the values are copies.
        """
        params = self._params()
        return copy.deepcopy(params) if deep else params

    def describe(self) -> dict[str, Any]:
        """Type and parameters as JSON values, from which `build` makes an equal object."""
        return {"type": self.get_type(), "params": {name: _plain(value) for name, value in self.get_params().items()}}

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"


_Part = TypeVar("_Part", bound=Configurable)


def build(what: str, value: Any, types: Mapping[str, type[_Part]], base: type[Any]) -> _Part:
    """The part that a user has chosen.

    Args:
        what: Name of the kind of part in messages, for instance "scaler".
        value: The name of a type, for its defaults; a result of `describe`; or the part itself.
        types: The types by name.
        base: Base class of all such parts, including user-defined ones.

    Raises:
        ValueError: On an unknown name, with the nearest known one, or a description of another form.
        TypeError: If the value is none of these, or a parameter is unknown to the type.
    """
    if isinstance(value, str):
        return _look_up(what, value, types)()
    if isinstance(value, Mapping):
        if value.keys() != {"type", "params"} or not isinstance(value["type"], str):
            raise ValueError(f"{what} is {dict(value)!r:.200}, expected a dict of its 'type' and its 'params'")
        return _look_up(what, value["type"], types)(**value["params"])
    if not isinstance(value, base):
        expected = f"{_listed(types)}, or an object of type {base.__name__}"
        raise TypeError(f"{what} is {value!r:.200} ({type(value).__name__}), expected {expected}")
    part: _Part = value
    return part


def _look_up(what: str, name: str, types: Mapping[str, type[_Part]]) -> type[_Part]:
    if name not in types:
        nearest = difflib.get_close_matches(name, types, n=1, cutoff=0.0)[0]
        raise ValueError(f"{what} is {name!r}, expected {_listed(types)}; the nearest is {nearest!r}")
    return types[name]


def _listed(names: Iterable[str]) -> str:
    return "one of " + ", ".join(map(repr, names))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
