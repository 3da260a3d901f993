"""Nested values of plain tensors, numbers and strings: checked copies for files, JSON forms and checksums."""

import base64
import collections
import contextlib
import math
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NoReturn

import numpy as np
import torch
from torch import Tensor

from pfrl_like.batch import map_nested
from pfrl_like.errors import CheckpointError

#: Maximum number of dimensions of a tensor.
MAX_DIMENSIONS = 16

_DTYPES = {torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
_DTYPES |= {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool}
_DICTS: tuple[type[dict[Any, Any]], ...] = (collections.OrderedDict, collections.Counter)
# Limits on the size of a value, counted in words: one per item, and more for long items. A value from a file may have
# `_WORDS_A_BYTE` words per byte of the file's pickle. This limit is at least `_FEW_WORDS` and at most `_MAX_WORDS`.
_FEW_WORDS, _WORDS_A_BYTE, _MAX_WORDS = 1 << 16, 16, 1 << 20
_MAX_DEPTH = 16
_MAX_BITS = 1024
# Integers with at most this number of bits are their own hash; larger integers could be chosen to have the same hash.
_MAX_KEY_BITS = 60


def tensor_writer(value: Any, path: object) -> Callable[[BinaryIO], None]:
    """Return a function that writes a state dict to a stream, as a `.pt` file for all versions of PyTorch.

    The values are copied to host memory immediately. The file can be loaded on every device, and later changes of the
    values have no effect.

    Args:
        value: Nested dicts, lists and tuples of tensors, numbers, strings and None.
        path: File that the value is written to, for error messages.

    Raises:
        CheckpointError: If `value` contains objects that `load_tensors` rejects. The message says where they are.
    """
    copy = plain_tensors(value, path)
    return lambda file: torch.save(copy, file)


def plain_tensors(value: Any, path: object) -> Any:
    """Return a copy of a state dict in host memory. Its tensors are dense and contiguous and share no memory.

    Raises:
        CheckpointError: If it contains other values than plain tensors, numbers, strings, None, dicts, lists and
            tuples.
    """
    return _Checker(path, _host_copy).check(value)


def checked_tensors(value: Any, path: object, size: int) -> Any:
    """Return a checked copy of a value that was read from a file. Its tensors are on the CPU and share no memory.

    A tensor that occurs in several places is copied once and stays one tensor. Otherwise a small file could fill the
    memory, because it needs only two bytes for each place.

    Args:
        value: The value.
        path: The file, for error messages.
        size: Size in bytes of the pickle that described the value. It limits the size of the value.

    Raises:
        CheckpointError: If it contains other values than plain tensors, numbers, strings, None, dicts, lists and
            tuples, or too many values.
    """
    copies: dict[int, torch.Tensor] = {}  # keyed by id; `value` keeps the tensors alive

    def copy_once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor.clone()
        return copies[id(tensor)]

    return _Checker(path, copy_once, min(_MAX_WORDS, max(_FEW_WORDS, _WORDS_A_BYTE * size))).check(value)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield every tensor of a nested value."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def is_plain_key(key: object) -> bool:
    """True if a dict may have this key: a string or a small integer, whose hash takes time linear in the length.

    Tuples are rejected. Nested tuples that each contain the next tuple twice are short in a file, but hashing them
    needs exponential time.
    """
    return type(key) is str or (type(key) is int and key.bit_length() <= _MAX_KEY_BITS)


class _Checker:
    """Copies a nested value and raises an error for values that a state dict must not contain."""

    def __init__(
        self, path: object, copy_tensor: Callable[[torch.Tensor], torch.Tensor], max_words: int = _MAX_WORDS
    ) -> None:
        self._path = path
        self._copy_tensor = copy_tensor
        self._max_words = max_words
        self._words = 0

    def check(self, value: Any, where: str = "", depth: int = _MAX_DEPTH) -> Any:
        self._words += 1 + len(value) // 4 if type(value) is str else 1
        if depth == 0 or self._words > self._max_words:
            self._reject(where, f"is nested more than {_MAX_DEPTH} levels deep, contains itself, or is too long")
        if value is None or type(value) in (bool, float, str):
            return value
        if type(value) is int and value.bit_length() <= _MAX_BITS:
            self._words += value.bit_length() // 128
            return value
        if isinstance(value, torch.Tensor):
            return self._check_tensor(value, where)
        if isinstance(value, np.generic) and value.dtype.kind in "biuf":
            return self.check(value.item(), where, depth)
        if type(value) in (list, tuple, torch.Size):
            items = (self.check(item, f"{where}[{i}]", depth - 1) for i, item in enumerate(value))
            return list(items) if type(value) is list else tuple(items)
        if isinstance(value, dict):
            return self._check_dict(value, where, depth)
        kind = type(value).__name__
        self._reject(where, f"is {kind}; expected tensors, numbers, strings, None, dicts, lists or tuples")

    def _check_dict(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[Any, Any]:
        copy: dict[Any, Any] = next((kind() for kind in _DICTS if type(value) is kind), {})
        for key, item in value.items():
            if not is_plain_key(key):
                self._reject(where, f"has a {type(key).__name__} key; expected str, or int of <= {_MAX_KEY_BITS} bits")
            self.check(key, where, depth)
            name = f"{key!s:.80}"  # a long key would be copied for each nested value
            copy[key] = self.check(item, f"{where}.{name}" if where else name, depth - 1)
        if hasattr(value, "_metadata") and isinstance(copy, collections.OrderedDict):
            vars(copy)["_metadata"] = self.check(value._metadata, f"{where}._metadata", depth - 1)
        return copy

    def _check_tensor(self, value: torch.Tensor, where: str) -> torch.Tensor:
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            self._reject(where, f"is {type(value).__name__}; expected a plain tensor")
        if value.layout != torch.strided or value.is_quantized or value.is_meta or value.is_nested:
            self._reject(where, "is a sparse, quantised, nested or meta tensor; expected a dense tensor")
        if value.dtype not in _DTYPES:
            self._reject(where, f"has the dtype {value.dtype}, which is not supported in files")
        if value.ndim > MAX_DIMENSIONS:
            self._reject(where, f"has {value.ndim} dimensions; expected at most {MAX_DIMENSIONS}")
        self._words += 16
        return self._copy_tensor(value)

    def _reject(self, where: str, reason: str) -> NoReturn:
        raise CheckpointError(self._path, f"{where or 'the value'} {reason}")


def _host_copy(value: torch.Tensor) -> torch.Tensor:
    copy = value.detach().to("cpu", copy=True).resolve_conj().resolve_neg()
    return copy.contiguous()


_DOUBLE = struct.Struct("<d")
_OBJECT = np.dtype(object)


def checksum(value: Any, total: int = 0) -> int:
    """Return the CRC-32 of an observation, action, reward or tensor, continued from `total`.

    For stacked frames, only the newest frame is read. Tensors on a GPU are skipped, because reading them would wait for
    the device.

    Args:
        value: Numbers, strings, arrays, tensors, and dicts, tuples and lists of these.
        total: Checksum of the previous values, 0 if there are none.
    """
    kind = type(value)
    if kind is float:
        value = _DOUBLE.pack(value)
    elif kind is int:
        value = b"%d" % value
    elif kind is np.ndarray and value.dtype is _OBJECT:  # the bytes of an object array are addresses
        value = value.tolist()
    try:
        return zlib.crc32(value, total)  # arrays and NumPy's numbers
    except (TypeError, ValueError, BufferError):
        return _checksum_of_others(value, total)


def checksum_of_many(values: Sequence[Any], total: int = 0) -> int:
    """Return the checksum of several values in sequence, like repeated calls of `checksum`."""
    if all(type(value) is np.ndarray and value.dtype is not _OBJECT for value in values):
        with contextlib.suppress(TypeError):  # raised for arrays that are not contiguous
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
    frames = getattr(value, "_frames", None)  # stacked frames: each of the others was the newest frame before
    if isinstance(frames, tuple | list):
        return checksum(frames[-1], total)
    array = np.asarray(value)
    return zlib.crc32(repr(value).encode() if array.dtype.hasobject else array.tobytes(), total)


def _bytes_of(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return b""
    try:
        # The tensor is copied, because a tensor with one number may have any stride.
        whole = tensor.detach().clone(memory_format=torch.contiguous_format)
        return whole.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError):  # sparse, quantised and similar tensors
        return repr(tensor).encode()


_REAL = {str(dtype): dtype for dtype in _DTYPES if not dtype.is_complex}
_FLOATING = {name: dtype for name, dtype in _REAL.items() if dtype.is_floating_point}
#: Maximum number of elements of a tensor that is written as text; larger tensors are kept as tensors.
_MAX_TEXT_ELEMENTS = 10_000


def to_plain(value: Any) -> Any:
    """Convert nested tuples of floating-point tensors and None to dicts, lists, numbers and None.

    NaN and infinity are converted to None. Tensors with more than 10,000 elements are kept as tensors.
    """
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    if value is None or value.numel() > _MAX_TEXT_ELEMENTS:
        return value
    numbers = map_nested(lambda number: number if math.isfinite(number) else None, value.tolist())
    return {"dtype": str(value.dtype), "values": numbers}


def to_saved(value: Any) -> Any:
    """Convert nested dicts, tuples and lists of tensors of any dtype and None to the format that `from_saved` reads.

    The tensors are detached, not copied.
    """
    if isinstance(value, Mapping):
        return {"dict": {str(key): to_saved(part) for key, part in value.items()}}
    if isinstance(value, tuple | list):
        return [to_saved(part) for part in value]
    return None if value is None else value.detach()


def from_saved(value: Any, device: torch.device | str) -> Any:
    """Convert the result of `to_saved` or `to_plain` to tensors on a device. Lists are converted to tuples.

    None among the numbers of a tensor is converted to NaN. The base64 text that earlier versions saved for a tensor can
    also be read.

    Raises:
        ValueError: If `value` is not a result of these functions.
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
        if "values" in value:
            numbers = np.array(value["values"], np.float64)  # None becomes NaN
            return torch.tensor(numbers, dtype=_FLOATING[value["dtype"]], device=device)
        content = bytearray(base64.b64decode(value["base64"], validate=True))
        dtype, shape = _REAL[value["dtype"]], [int(size) for size in value["shape"]]
        flat = torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)
        return flat.reshape(shape).to(device)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as error:
        raise ValueError(f"got {value!r:.100} for a tensor, expected a dict with dtype and values") from error


#: `from_saved` also reads the results of `to_plain`.
from_plain = from_saved
