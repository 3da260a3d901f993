"""The checksum of a nested value: what runs and episodes are compared by, step by step."""

import contextlib
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

_DOUBLE = struct.Struct("<d")
_OBJECT = np.dtype(object)


def checksum(value: Any, total: int = 0) -> int:
    """The CRC-32 of an observation, action, reward or tensor, going on from another.

    Of stacked frames it is that of the newest, and of tensors on a GPU, for which nobody waits, there is none.

    Args:
        value: Numbers, text, arrays, tensors, and dicts, tuples and lists of such.
        total: The checksum of what came before.
    """
    kind = type(value)
    if kind is float:
        value = _DOUBLE.pack(value)
    elif kind is int:
        value = b"%d" % value
    elif kind is np.ndarray and value.dtype is _OBJECT:  # whose bytes are addresses
        value = value.tolist()
    try:
        return zlib.crc32(value, total)  # of arrays, and NumPy's numbers
    except (TypeError, ValueError, BufferError):
        return _checksum_of_others(value, total)


def checksum_of_many(values: Sequence[Any], total: int = 0) -> int:
    """What `checksum` makes of one value after the other."""
    if all(type(value) is np.ndarray and value.dtype is not _OBJECT for value in values):
        with contextlib.suppress(TypeError):  # of arrays that are not contiguous
            return zlib.crc32(b"".join(values), total)
    for value in values:
        total = checksum(value, total)
    return total


def _checksum_of_others(value: Any, total: int) -> int:
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            total = checksum(value[key], zlib.crc32(str(key).encode(), total))
        return total
    if isinstance(value, tuple | list):
        for part in value:
            total = checksum(part, total)
        return zlib.crc32(b"%d" % len(value), total)
    if isinstance(value, torch.Tensor):
        return total if value.device.type != "cpu" else checksum(_bytes_of(value), total)
    frames = getattr(value, "_frames", None)  # of a stack, whose others have been seen
    if isinstance(frames, tuple | list):
        return checksum(frames[-1], total)
    array = np.asarray(value)
    return zlib.crc32(repr(value).encode() if array.dtype.hasobject else array.tobytes(), total)


def _bytes_of(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return b""
    try:
        whole = tensor.detach().clone(memory_format=torch.contiguous_format)  # one number may have any stride
        return whole.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError):  # sparse, quantised and the like
        return repr(tensor).encode()
