"""The file format of saved replay buffers: magic, header, named arrays (columns), checksum.

    8 bytes   b"PFRLARR1"
    8 bytes   length of the header, little-endian
    header    JSON: {"header": the caller's dict, "columns": [{"name", "dtype", "shape"[, "pickled"]}]}
    columns   their bytes in C order, each padded to a multiple of 64
    4 bytes   CRC-32 of everything before, little-endian
    4 bytes   b"END1"

The header defines the exact size of the file. The size is checked before memory is allocated, and the checksum is
checked before anything is returned.
"""

import math
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, open_regular, read_errors
from pfrl_like.storage.json_file import dump_json, parse_json, plain_json
from pfrl_like.storage.pickles import dump_objects, load_objects, reject_pickle

MAGIC = b"PFRLARR1"
_END = b"END1"
_ALIGNMENT = 64
_CHUNK = 1 << 24
_MAX_HEADER = 1 << 26
_MAX_COLUMNS = 1 << 14
_MAX_DIMENSIONS = 64  # NumPy's limit
_DTYPE = re.compile(r"[<>|][biufcSUmM][1-9][0-9]{0,8}(\[[0-9]*[a-zA-Z]{1,2}\])?")


class _Column(NamedTuple):
    """Description of one column in the header. `size` is the number of bytes of its raw values or pickled objects."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    size: int


def write_arrays(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    *,
    allow_pickle: bool = False,
) -> tuple[int, int]:
    """Write a header and arrays to a file. An existing file is replaced atomically.

    Args:
        path: The file.
        header: Description of the arrays, as JSON.
        arrays: Arrays, keyed by name. They may contain numbers, bools, strings or times. Arrays of objects need
            `allow_pickle=True`.
        allow_pickle: True to pickle object arrays. Their items may be NumPy arrays and plain containers.

    Returns:
        The size of the file in bytes and its checksum, both arguments of `read_arrays`.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name is then unchanged.
    """
    target = os.fspath(path)
    pickled = {}
    columns = []
    for name, array in arrays.items():
        column: dict[str, Any] = {"name": name, "dtype": array.dtype.str, "shape": array.shape}
        if array.dtype == object:
            if not allow_pickle:
                reject_pickle(target, f"cannot store {name!r}, because it contains Python objects")
            pickled[name] = dump_objects(array.ravel().tolist(), target)
            column["pickled"] = len(pickled[name])
        elif not _DTYPE.fullmatch(array.dtype.str):
            raise CheckpointError(target, f"cannot store {name!r}, which has the dtype {array.dtype}")
        columns.append(column)
    head = dump_json({"columns": columns, "header": plain_json(header, target)}, target)
    if len(head) > _MAX_HEADER or len(columns) > _MAX_COLUMNS:
        raise CheckpointError(target, f"cannot have a header of {len(head)} bytes and {len(columns)} columns")

    size = checksum = 0

    def write(file: BinaryIO) -> None:
        nonlocal size, checksum
        for part in _parts(head, arrays, pickled):
            checksum = zlib.crc32(part, checksum)
            size += file.write(part)
        size += file.write(struct.pack("<I", checksum) + _END)

    atomic_write(target, write)
    return size, checksum


def read_arrays(
    path: str | os.PathLike[str], *, allow_pickle: bool = False, size: int | None = None, checksum: int | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header and the arrays of a file written by `write_arrays`.

    Args:
        path: The file.
        allow_pickle: True to read object arrays. Their pickles cannot run code, but a manipulated file can use any
            amount of memory. Use it only for files whose origin you know.
        size: Expected size in bytes, as returned by `write_arrays`. If None, any size is allowed.
        checksum: Expected checksum, as returned by `write_arrays`. If None, any checksum is allowed.

    Returns:
        The caller's header, and writable arrays, keyed by name.

    Raises:
        CheckpointError: If the file is damaged, truncated, not a file of arrays, or not the expected file, or if it has
            object arrays and `allow_pickle` is False.
    """
    source = os.fspath(path)
    with open_regular(source) as file, read_errors(source, "is damaged"):
        if size not in (None, actual := os.fstat(file.fileno()).st_size):
            raise CheckpointError(source, f"has {actual} bytes; expected {size}: it is truncated, or a different file")
        return _read(file, source, actual, allow_pickle, checksum)


def is_array_file(path: str | os.PathLike[str]) -> bool:
    """True if a file begins with the magic bytes of `write_arrays`.

    Raises:
        CheckpointError: If the file cannot be read.
    """
    with open_regular(os.fspath(path)) as file:
        return file.read(len(MAGIC)) == MAGIC


def _parts(head: bytes, arrays: Mapping[str, NDArray[Any]], pickled: Mapping[str, bytes]) -> Iterator[Any]:
    """Yield the bytes of a file in order, in chunks that fit into the cache. Contiguous arrays are not copied."""
    start = MAGIC + struct.pack("<Q", len(head)) + head
    yield start + bytes(-len(start) % _ALIGNMENT)
    for name, array in arrays.items():
        content: Any = pickled.get(name)
        if content is None:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for begin in range(0, len(content), _CHUNK):
            yield content[begin : begin + _CHUNK]
        yield bytes(-len(content) % _ALIGNMENT)


def _read(
    file: BinaryIO, path: str, size: int, allow_pickle: bool, expected_checksum: int | None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    start = file.read(len(MAGIC) + 8)
    if len(start) < len(MAGIC) + 8 or not start.startswith(MAGIC):
        raise CheckpointError(path, f"is not a file of arrays: it does not begin with {MAGIC!r}")
    (length,) = struct.unpack("<Q", start[len(MAGIC) :])
    if length > min(size, _MAX_HEADER):
        raise CheckpointError(path, f"is damaged: the length of its header is {length} bytes")
    head = file.read(length + -(len(start) + length) % _ALIGNMENT)
    fields = parse_json(head[:length], path)
    entries = fields.get("columns")
    if type(entries) is not list or len(entries) > _MAX_COLUMNS:
        raise CheckpointError(path, "is damaged: its header has no list of columns")
    columns = [_column(entry, path) for entry in entries]
    if len({column.name for column in columns}) != len(columns):
        raise CheckpointError(path, "is damaged: two columns have the same name")
    expected = len(start) + len(head) + sum(column.size + -column.size % _ALIGNMENT for column in columns) + 8
    if size != expected:
        raise CheckpointError(path, f"has {size} bytes; expected {expected}: it is truncated or damaged")
    if not allow_pickle and any(column.dtype == object for column in columns):
        reject_pickle(path, "has columns of pickled objects")
    checksum = zlib.crc32(head, zlib.crc32(start))
    raw = []
    for column in columns:
        raw.append(np.empty(column.size, np.uint8))
        for begin in range(0, column.size, _CHUNK):
            piece = raw[-1][begin : begin + _CHUNK]
            if file.readinto(piece.data) != len(piece):  # type: ignore[attr-defined]
                raise ValueError(f"column {column.name!r} is truncated")
            checksum = zlib.crc32(piece.data, checksum)
        checksum = zlib.crc32(file.read(-column.size % _ALIGNMENT), checksum)
    if file.read(8) != struct.pack("<I", checksum) + _END:
        raise CheckpointError(path, "is damaged: its checksum does not match")
    if expected_checksum not in (None, checksum):
        raise CheckpointError(path, "is not the expected file: its checksum differs")
    header = fields.get("header")
    if type(header) is not dict:
        raise CheckpointError(path, "is damaged: its header is not a dict")
    return header, {column.name: _array(column, content, path) for column, content in zip(columns, raw, strict=True)}


def _column(entry: Any, path: str) -> _Column:
    fields = entry if type(entry) is dict else {}
    name, code, shape = fields.get("name"), fields.get("dtype"), fields.get("shape")
    sizes: list[Any] = shape if type(shape) is list else [None]
    if type(name) is not str or type(code) is not str or not all(type(n) is int and 0 <= n < 1 << 48 for n in sizes):
        raise CheckpointError(path, "is damaged: a column has no valid name, dtype or shape")
    if len(sizes) > _MAX_DIMENSIONS:  # the time to multiply the sizes is quadratic in their number
        raise CheckpointError(path, f"is damaged: column {name!r} has {len(sizes)} dimensions")
    if code == "|O":
        size = fields.get("pickled")
        if type(size) is not int or size < 0:
            raise CheckpointError(path, f"is damaged: the size of column {name!r} is missing")
        return _Column(name, np.dtype(object), tuple(sizes), size)
    if not _DTYPE.fullmatch(code):
        raise CheckpointError(path, f"is damaged: column {name!r} has the dtype {code!r}")
    dtype = np.dtype(code)
    return _Column(name, dtype, tuple(sizes), math.prod(sizes) * dtype.itemsize)


def _array(column: _Column, content: NDArray[np.uint8], path: str) -> NDArray[Any]:
    if column.dtype == object:
        values = load_objects(content.tobytes(), path)
        if type(values) is not list or len(values) != math.prod(column.shape):
            raise CheckpointError(path, f"is damaged: column {column.name!r} has no objects of shape {column.shape}")
        return np.fromiter(values, object, len(values)).reshape(column.shape)
    # Reject bools other than 0 and 1 and characters above 0x10FFFF. NumPy never produces them and treats them
    # inconsistently.
    if column.dtype.kind == "b" and (content > 1).any():
        raise CheckpointError(path, f"is damaged: the bools of column {column.name!r} are neither 0 nor 1")
    if column.dtype.kind == "U" and column.size:
        codes = content.view(column.dtype.str[0] + "u4")
        if (codes > 0x10FFFF).any():
            raise CheckpointError(path, f"is damaged: column {column.name!r} has characters that do not exist")
    if column.size == 0:
        return np.empty(column.shape, column.dtype)
    return content.view(column.dtype).reshape(column.shape)
