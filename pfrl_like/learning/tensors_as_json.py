"""Tensors within what an agent saves, and back, exactly: few numbers as JSON has them, many as the tensors they are.

`AttributeSavingMixin.save` writes tensors into a file of their own, of any size.
"""

import base64
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

_DTYPES = {str(dtype): dtype for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)}
#: Numbers that people may want to read; more of them are no text.
_FEW = 10_000
_TEXT_DTYPES = _DTYPES | {
    str(dtype): dtype for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
}


def to_plain(value: Any) -> Any:
    """Nested tuples of floating-point tensors and None, as dicts, lists, numbers and None (NaN and infinity: None).

    Tensors of many numbers stay what they are.
    """
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    if value is None or value.numel() > _FEW:
        return value
    return {"dtype": str(value.dtype), "values": _finite(value.tolist())}


def from_plain(value: Any, device: torch.device | str) -> Any:
    """What `to_plain` was given, on a device, with NaN for None among the numbers.

    Raises:
        ValueError: If it is no such value.
    """
    if isinstance(value, list):
        return tuple(from_plain(part, device) for part in value)
    if value is None:
        return None
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
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


def to_saved(value: Any) -> Any:
    """Nested dicts, tuples and lists of tensors of any dtype and None, nested so that `from_saved` tells them apart.

    The tensors are the ones that came, without their gradients.
    """
    if isinstance(value, Mapping):
        return {"dict": {str(key): to_saved(part) for key, part in value.items()}}
    if isinstance(value, tuple | list):
        return [to_saved(part) for part in value]
    return None if value is None else value.detach()


def from_saved(value: Any, device: torch.device | str) -> Any:
    """What `to_saved` was given, copied to a device, with tuples for lists; also what former versions saved as text.

    Raises:
        ValueError: If it is no such value.
    """
    if isinstance(value, list):
        return tuple(from_saved(part, device) for part in value)
    if value is None:
        return None
    if isinstance(value, Tensor):
        return value.to(device, copy=True)
    try:
        if "dict" in value:
            return {key: from_saved(part, device) for key, part in value["dict"].items()}
        content = bytearray(base64.b64decode(value["base64"], validate=True))
        dtype, shape = _TEXT_DTYPES[value["dtype"]], [int(size) for size in value["shape"]]
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        return flat.reshape(shape).to(device)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise ValueError(f"a tensor is {value!r:.100}, expected its dtype, shape and content") from error
