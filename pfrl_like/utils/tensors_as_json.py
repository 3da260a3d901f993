"""Tensors as values that JSON has, and back, exactly."""

import math
from typing import Any

import torch

_DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}


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
