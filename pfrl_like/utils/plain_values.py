"""Exact conversions of nested values and of configurable objects to JSON values and back."""

import base64
import copy
import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_DTYPE_KINDS = "biufcUSmM"  # NumPy's `dtype.kind` of arrays that can be saved
_MOST_DIMENSIONS = 64  # limit of NumPy; torch has none
#: `_LEVELS`: maximum nesting depth of a JSON value. `_LEAF_LEVELS`: nesting depth of one saved array, tensor or scalar.
_LEVELS, _LEAF_LEVELS = 22, 3


def to_json(value: Any, levels: int = _LEVELS) -> Any:
    """Convert nested dicts, lists and tuples of None, numbers, strings, bytes, arrays and tensors to JSON values.

    Args:
        value: The value.
        levels: Maximum nesting depth of the JSON value. A dict uses three levels, a tuple two, a list one.

    Raises:
        TypeError: If the value contains another type, or is nested too deeply.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is float:  # NaN and infinity, which JSON cannot represent
        return {"float": str(value)}
    if levels < _LEAF_LEVELS:
        raise TypeError("a value is nested too deeply to be saved")
    if isinstance(value, Tensor):
        return {"tensor": _text_of_tensor(value)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _DTYPE_KINDS:
        return {"array" if isinstance(value, np.ndarray) else "scalar": _text_of(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"dict": [[to_json(key, levels - 3), to_json(part, levels - 3)] for key, part in value.items()]}
    if isinstance(value, tuple | list):
        is_list = isinstance(value, list)
        parts = [to_json(part, levels - (1 if is_list else 2)) for part in value]
        return parts if is_list else {"tuple": parts}
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):  # `LazyFrames`
        return to_json(np.asarray(value))
    raise TypeError(f"{type(value).__name__} cannot be saved")


def from_json(value: Any) -> Any:
    """Return the value that was passed to `to_json` or `many_to_json`.

    Raises:
        ValueError: If `value` is not a result of these functions.
    """
    try:
        return _from_json(value)
    except (TypeError, ValueError, KeyError, AttributeError, RuntimeError) as error:
        raise ValueError(f"{value!r:.100} is not a saved value") from error


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if "stack" in value:
        stack = _array_of(*value["stack"])
        if not stack.nbytes:
            raise ValueError("the stack is empty")
        return list(stack) if value["scalars"] or stack.ndim > 1 else [np.array(item) for item in stack]
    [(kind, content)] = value.items()
    return _VALUES_OF[kind](content)


#: `to_json` writes some values as {key: content}. This table contains, for each key, the function that converts the
#: content back.
_VALUES_OF: Mapping[str, Callable[[Any], Any]] = {
    "tuple": lambda content: tuple(map(_from_json, content)),
    "dict": lambda content: {_from_json(key): _from_json(part) for key, part in content},
    "float": float,
    "bytes": lambda content: base64.b64decode(content, validate=True),
    "tensor": lambda content: _tensor_of(*content),
    "array": lambda content: _array_of(*content),
    "scalar": lambda content: _array_of(*content)[()],
}


def many_to_json(values: Sequence[Any]) -> Any:
    """Convert a list of values to JSON values. Arrays of the same shape and dtype are stored as one array.

    Raises:
        TypeError: If a value contains a type that `to_json` does not support, or is nested too deeply.
    """
    kinds = {(type(value), getattr(value, "dtype", None), getattr(value, "shape", None)) for value in values}
    alike = len(kinds) == 1 and isinstance(values[0], np.ndarray | np.generic) and values[0].dtype.kind in _DTYPE_KINDS
    if alike and values[0].nbytes:  # not empty arrays: a damaged file could claim millions of them
        return {"stack": _text_of(np.stack(values)), "scalars": isinstance(values[0], np.generic)}
    return [to_json(value) for value in values]


def _text_of(array: NDArray[Any]) -> list[Any]:
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def _array_of(dtype: str, shape: Sequence[int], text: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _DTYPE_KINDS:
        raise ValueError(dtype)
    return np.frombuffer(base64.b64decode(text, validate=True), kind).reshape(shape).copy()


def _text_of_tensor(tensor: Tensor) -> list[Any]:
    try:
        whole = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
        content = base64.b64encode(whole.reshape(-1).view(torch.uint8).numpy().tobytes()).decode()
    except (RuntimeError, TypeError) as error:  # sparse or quantised tensors, or tensors without data
        raise TypeError(f"a tensor cannot be saved: {error!s:.100}") from error
    return [str(tensor.dtype), list(tensor.shape), content, tensor.requires_grad]


def _tensor_of(dtype: str, shape: Sequence[int], text: str, requires_grad: bool) -> Tensor:
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"{len(shape)} dimensions")
    kind = getattr(torch, dtype.removeprefix("torch."))
    content = np.frombuffer(base64.b64decode(text, validate=True), np.uint8).copy()
    return torch.from_numpy(content.reshape(-1, kind.itemsize)).view(kind).reshape(shape).requires_grad_(requires_grad)


class Configurable(ABC):
    """Object that can be rebuilt from the name of its type and its constructor arguments."""

    type_name: ClassVar[str]

    def get_type(self) -> str:
        """Return the name by which users select the type."""
        return self.type_name

    @abstractmethod
    def _params(self) -> dict[str, Any]:
        """Return the constructor arguments of this object, keyed by name. They construct an equal object."""

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return the constructor arguments of this object, keyed by name. They construct an equal object.

        Args:
            deep: True to copy the values.
        """
        params = self._params()
        return copy.deepcopy(params) if deep else params

    def describe(self) -> dict[str, Any]:
        """Return the type and the parameters as JSON values. `build` constructs an equal object from them."""
        params = {name: _as_json(value) for name, value in self.get_params().items()}
        return {"type": self.get_type(), "params": params}

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({params})"


_Part = TypeVar("_Part", bound=Configurable)


def build(what: str, value: Any, types: Mapping[str, type[_Part]], base: type[Any]) -> _Part:
    """Return the object that `value` describes.

    Args:
        what: Noun for the object in messages, for example "scaler".
        value: Name of a type: the object is constructed with the default arguments. Or a result of `describe`. Or the
            object itself.
        types: The types, keyed by name.
        base: Base class of all types, including user-defined types.

    Raises:
        ValueError: If the name is unknown (the message contains the most similar name), or if the description is
            invalid.
        TypeError: If `value` is none of these, or if the description has a parameter that the constructor does not
            have.
    """
    if isinstance(value, str):
        return _type_of(what, value, types)()
    if isinstance(value, Mapping):
        if value.keys() != {"type", "params"} or not isinstance(value["type"], str):
            raise ValueError(f"{what} is {dict(value)!r:.200}, expected a dict of its 'type' and its 'params'")
        return _type_of(what, value["type"], types)(**value["params"])
    if not isinstance(value, base):
        expected = f"{_one_of(types)}, or an object of type {base.__name__}"
        raise TypeError(f"{what} is {value!r:.200} ({type(value).__name__}), expected {expected}")
    part: _Part = value
    return part


def _type_of(what: str, name: str, types: Mapping[str, type[_Part]]) -> type[_Part]:
    if name not in types:
        nearest = difflib.get_close_matches(name, types, n=1, cutoff=0.0)[0]
        raise ValueError(f"{what} is {name!r}, expected {_one_of(types)}; the nearest is {nearest!r}")
    return types[name]


def _one_of(names: Iterable[str]) -> str:
    return "one of " + ", ".join(map(repr, names))


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
