"""`ReplayJournal`: the steps that a replay actor has stored since the kept saves of its buffer, in files.

A record of a journal is a chunk: the length of a JSON text, the text, and the bytes of all arrays. It needs no pickle.
Records are passed to the operating system and not synced. They survive the end of the process, and not a crash of the
machine.
"""

import dataclasses
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.frame_stacks import FrameStacks, StackForm
from pfrl_like.distributed.chunk import Chunk
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers.saved import JOURNAL
from pfrl_like.storage.atomic import make_directory, named_errors, names_in, read_errors
from pfrl_like.storage.journal import MAGIC, MAX_BUFFERED, Journal, read_journal
from pfrl_like.utils.plain_values import from_json, to_json

_LENGTH = struct.Struct("<Q")
_DTYPE_KINDS = "biufcSUmM"
#: Size in bytes at which a new file begins. Reading needs a few times this memory.
_LARGE_FILE = 1 << 26


class ReplayJournal:
    """Journals in the folder of a buffer's saves. They have numbers in the order of time.

    Each save begins a new journal. The content of the buffer after a save is the content of the save and the chunks of
    this journal and of all later ones.

    Args:
        folder: The folder. It is created if it does not exist.
        least: Minimum number of the first journal. It is also larger than the numbers of all existing journals.

    Attributes:
        number: Number of the journal that is being written.

    Raises:
        CheckpointError: If the file cannot be created.
    """

    def __init__(self, folder: str, least: int = 0) -> None:
        make_directory(folder)
        self.folder, self.number = folder, least
        self._waiting: list[bytes] = []  # records that could not be written yet
        self._is_empty = False  # True if the newest file has no complete record
        self._file: Journal | None = self._begin()

    def _begin(self) -> Journal:
        if not self._is_empty:
            self.number = max([self.number, *(number + 1 for number in _numbers(self.folder))])
        self._is_empty = True
        return Journal(_path(self.folder, self.number))

    def append(self, label: Mapping[str, Any], chunk: Chunk) -> None:
        """Write a chunk. After this call, the end of the process does not destroy it.

        Args:
            label: Further values of the record, see `to_json`.
            chunk: The chunk.

        Raises:
            CheckpointError: If the chunk cannot be written. It stays in memory and is written by the next call.
            MemoryError: If the chunks that could not be written need too much memory.
        """
        try:
            self._waiting.append(encode(label, chunk))
        except TypeError as error:
            raise CheckpointError(self.folder, f"cannot store a step in a journal: {error}") from error
        try:
            if self._file is None or self._file.size > _LARGE_FILE:
                self._file = self._begin()
            if not self._file.append(self._waiting):
                raise CheckpointError(self._file.path, "is too small for a chunk")
        except CheckpointError:
            self._file = None  # it may end in a part of a record
            if sum(map(len, self._waiting)) > MAX_BUFFERED:
                raise MemoryError(f"{len(self._waiting)} chunks wait for space on the disk of {self.folder}") from None
            raise
        self._waiting.clear()
        self._is_empty = False


def read_chunks(folder: str, number: int) -> Iterator[tuple[dict[str, Any], Chunk]]:
    """Yield the labels and chunks of a journal and of all later ones, oldest first.

    A journal that ends in an incomplete record is read up to this record.

    Raises:
        CheckpointError: If a file cannot be read, or is no journal of chunks.
    """
    for path in _paths(folder, number):
        with named_errors(path, "read"):
            size = os.path.getsize(path)
        for record in read_journal(path)[0] if size >= len(MAGIC) else ():  # the process may have ended before
            with read_errors(path, "is damaged"):
                pair = decode(record)
            yield pair


def drop_journals(folder: str, number: int) -> None:
    """Remove a journal and all later ones.

    Raises:
        CheckpointError: If a file cannot be removed.
    """
    for path in _paths(folder, number):
        with named_errors(path, "removed"):
            os.unlink(path)


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f"journal-{number:012d}.bin")


def _numbers(folder: str) -> list[int]:
    names = names_in(folder) if os.path.isdir(folder) else []
    return sorted(int(match[1]) for match in map(JOURNAL.fullmatch, names) if match)


def _paths(folder: str, first: int) -> list[str]:
    return [_path(folder, number) for number in _numbers(folder) if number >= first]


def encode(label: Mapping[str, Any], chunk: Chunk) -> bytes:
    """Return a chunk and a label as one record.

    Raises:
        TypeError: If a column contains objects of other types than `to_json` supports.
    """
    arrays: dict[int, tuple[int, NDArray[Any]]] = {}  # by identity, because columns share frames
    columns = {field.name: _to_plain(getattr(chunk, field.name), arrays) for field in dataclasses.fields(chunk)}
    forms = [[array.dtype.str, array.shape] for _, array in arrays.values()]
    head = json.dumps({"label": to_json(label), "columns": columns, "arrays": forms}).encode()
    content: list[Any] = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for _, array in arrays.values()]
    return b"".join([_LENGTH.pack(len(head)), head, *content])


def decode(record: bytes) -> tuple[dict[str, Any], Chunk]:
    """Return the label and the chunk of a record. The arrays are read-only.

    Raises:
        ValueError, KeyError, TypeError, struct.error: If the content is not a result of `encode`.
    """
    (length,) = _LENGTH.unpack_from(record)
    at = _LENGTH.size + length
    head = json.loads(record[_LENGTH.size : at])
    arrays: list[NDArray[Any]] = []
    for code, shape in head["arrays"]:
        dtype = np.dtype(code)
        if dtype.kind not in _DTYPE_KINDS or min(shape, default=0) < 0:
            raise ValueError(f"an array has the dtype {code!r:.80} and the shape {shape!r:.80}")
        size = dtype.itemsize * math.prod(shape)
        arrays.append(np.frombuffer(record[at : at + size], dtype).reshape(shape))
        at += size
    columns = {name: _from_plain(value, arrays) for name, value in head["columns"].items()}
    return from_json(head["label"]), Chunk(**columns)


def _to_plain(value: Any, arrays: dict[int, tuple[int, NDArray[Any]]]) -> Any:
    """Return nested values as JSON values that contain the numbers of arrays. Add the arrays to `arrays`."""
    if isinstance(value, FrameStacks):
        parts = [_to_plain(part, arrays) for part in (value.frames, value.index)]
        form = [part.str if isinstance(part, np.dtype) else to_json(part) for part in value.form]
        return {"stacks": [*parts, form, value.is_lazy]}
    if isinstance(value, Mapping):
        return {"dict": [[to_json(key), _to_plain(part, arrays)] for key, part in value.items()]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_to_plain(part, arrays) for part in value]}
    if isinstance(value, np.ndarray) and value.dtype == object:
        return {"objects": [value.shape, [_to_plain(part, arrays) for part in value.ravel().tolist()]]}
    if isinstance(value, np.ndarray) and value.dtype.kind in _DTYPE_KINDS:
        return {"array": arrays.setdefault(id(value), (len(arrays), value))[0]}
    return {"value": to_json(value)}


def _from_plain(plain: Mapping[str, Any], arrays: list[NDArray[Any]]) -> Any:
    """Return the value that `_to_plain` converted."""
    [(kind, content)] = plain.items()
    if kind == "array":
        return arrays[content]
    if kind == "stacks":
        shape, dtype, *others = map(from_json, content[2])
        frames, index = (_from_plain(part, arrays) for part in content[:2])
        return FrameStacks(frames, index, StackForm(shape, np.dtype(dtype), *others), content[3])
    if kind == "dict":
        return {from_json(key): _from_plain(part, arrays) for key, part in content}
    if kind in ("tuple", "list"):
        parts = [_from_plain(part, arrays) for part in content]
        return parts if kind == "list" else tuple(parts)
    if kind == "objects":
        values = [_from_plain(part, arrays) for part in content[1]]
        return np.fromiter(values, object, len(values)).reshape(content[0])
    return from_json(content)
