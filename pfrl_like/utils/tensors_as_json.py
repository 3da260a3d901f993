"""Tensors as values that JSON has, and back, exactly."""

import base64
import math
from collections.abc import Mapping
from typing import Any

import torch

_DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
#: Text, in bytes, that one part of what an agent saves may take.
MOST_TEXT = 1 << 27
_TEXT_DTYPES = _DTYPES | {
    str(dtype): dtype for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
}


def to_plain(value: Any) -> Any:
    """Nested tuples of floating-point tensors and None, as dicts, lists, numbers and None (NaN and infinity: None)."""
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    return value if value is None else {"dtype": str(value.dtype), "values": _finite(value.tolist())}


def from_plain(value: Any, device: torch.device | str) -> Any:
    """What `to_plain` was given, on a device, with NaN for None among the numbers.

    Raises:
        ValueError: If it is no such value.
    """
    if isinstance(value, list):
        return tuple(from_plain(part, device) for part in value)
    if value is None:
        return None
    try:
        return torch.tensor(_numbers(value["values"]), dtype=_DTYPES[value["dtype"]], device=device)
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"a tensor is {value!r:.100}, expected its dtype and values") from error


def _finite(values: Any) -> Any:
    if isinstance(values, list):
        return [_finite(item) for item in values]
    return values if math.isfinite(values) else None


def _numbers(values: Any) -> Any:
    if isinstance(values, list):
        return [_numbers(item) for item in values]
    return math.nan if values is None else values


def to_text(value: Any) -> Any:
    """Nested dicts, tuples and lists of tensors of any dtype and None; the numbers as text, for when they are many."""
    if isinstance(value, Mapping):
        return {"dict": {str(key): to_text(part) for key, part in value.items()}}
    if isinstance(value, tuple | list):
        return [to_text(part) for part in value]
    if value is None:
        return None
    content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return {"dtype": str(value.dtype), "shape": list(value.shape), "base64": base64.b64encode(content).decode()}


def from_text(value: Any, device: torch.device | str) -> Any:
    """What `to_text` was given, on a device, with tuples for lists.

    Raises:
        ValueError: If it is no such value.
    """
    if isinstance(value, list):
        return tuple(from_text(part, device) for part in value)
    if value is None:
        return None
    try:
        if "dict" in value:
            return {key: from_text(part, device) for key, part in value["dict"].items()}
        content = bytearray(base64.b64decode(value["base64"], validate=True))
        dtype, shape = _TEXT_DTYPES[value["dtype"]], [int(size) for size in value["shape"]]
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        return flat.reshape(shape).to(device)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise ValueError(f"a tensor is {value!r:.100}, expected its dtype, shape and content") from error


def text_length(value: Any) -> int:
    """Characters of all texts in nested dicts and lists."""
    if isinstance(value, str):
        return len(value)
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(text_length, parts))
