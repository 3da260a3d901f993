"""Actions, observations and states of environments as values that JSON takes, and back, exactly."""

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = "biufcUSmM"


def to_json(value: Any) -> Any:
    """Nested dicts, lists and tuples of None, numbers, text, bytes and arrays, in a form that `from_json` takes.

    Raises:
        TypeError: If it holds something else.
    """
    if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
        return value
    if type(value) is float:  # which JSON has not
        return {"float": str(value)}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in _KINDS:
        return {"array" if isinstance(value, np.ndarray) else "scalar": _text_of(np.asarray(value))}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {"dict": [[to_json(key), to_json(part)] for key, part in value.items()]}
    if isinstance(value, tuple | list):
        parts = [to_json(part) for part in value]
        return parts if isinstance(value, list) else {"tuple": parts}
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):  # a tensor, a lazy stack
        return to_json(np.asarray(value))
    raise TypeError(f"a {type(value).__name__} cannot be saved")


def from_json(value: Any) -> Any:
    """What `to_json` was given.

    Raises:
        ValueError: If it is no such value.
    """
    return _read(_from_json, value)


def _read(read: Callable[[Any], Any], plain: Any) -> Any:
    try:
        return read(plain)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ValueError(f"it is {plain!r:.100}, which is no saved value") from error


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "tuple":
        return tuple(_from_json(part) for part in content)
    if kind == "dict":
        return {_from_json(key): _from_json(part) for key, part in content}
    if kind == "float":
        return float(content)
    if kind == "bytes":
        return base64.b64decode(content, validate=True)
    if kind not in ("array", "scalar"):
        raise ValueError(kind)
    array = _array_of(*content)
    return array[()] if kind == "scalar" else array


def many_to_json(values: Sequence[Any]) -> Any:
    """A list of values, as one array where they are alike, which is shorter.

    Raises:
        TypeError: As `to_json`.
    """
    kinds = {(type(value), getattr(value, "dtype", None), getattr(value, "shape", None)) for value in values}
    if len(kinds) == 1 and isinstance(values[0], np.ndarray | np.generic) and values[0].dtype.kind in _KINDS:
        return {"stack": _text_of(np.stack(values)), "scalars": isinstance(values[0], np.generic)}
    return [to_json(value) for value in values]


def many_from_json(plain: Any) -> list[Any]:
    """What `many_to_json` was given.

    Raises:
        ValueError: If it is no such list.
    """
    many: list[Any] = _read(_many_from_json, plain)
    return many


def _many_from_json(plain: Any) -> list[Any]:
    if isinstance(plain, list):
        return [_from_json(part) for part in plain]
    stack = _array_of(*plain["stack"])
    return list(stack) if plain["scalars"] or stack.ndim > 1 else [np.array(item) for item in stack]


def _text_of(array: NDArray[Any]) -> list[Any]:
    return [array.dtype.str, list(array.shape), base64.b64encode(array.tobytes()).decode()]


def _array_of(dtype: str, shape: Sequence[int], text: str) -> NDArray[Any]:
    kind = np.dtype(dtype)
    if kind.kind not in _KINDS:
        raise ValueError(dtype)
    return np.frombuffer(base64.b64decode(text, validate=True), kind).reshape(shape).copy()
