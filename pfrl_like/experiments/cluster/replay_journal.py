"""Journals of a replay actor or a persistent buffer: the steps that were stored since the kept saves, in files.

A record of a journal is a chunk: the length of a JSON text, the text, and the bytes of all arrays. It needs no pickle.
Records are passed to the operating system and not synced. They survive the end of the process, and not a crash of the
machine.
"""

import dataclasses
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.frame_stacks import FrameStacks, StackForm
from pfrl_like.columns.structure import map_structure, structure_of
from pfrl_like.distributed.chunk import Chunk
from pfrl_like.errors import CheckpointError
from pfrl_like.learning.chunks import append_to_buffer
from pfrl_like.replay_buffers.saved import JOURNAL
from pfrl_like.storage.atomic import make_directory, named_errors, names_in, read_errors
from pfrl_like.storage.journal import MAGIC, Journal, read_journal
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
        least: Minimum number of the journal. It is also larger than the numbers of all existing journals.

    Attributes:
        number: Number of the journal.

    Raises:
        CheckpointError: If the file cannot be created.
    """

    def __init__(self, folder: str, least: int = 0) -> None:
        make_directory(folder)
        self.folder = folder
        self.number = max([least, *(number + 1 for number, _ in _journals(folder, 0))])
        self._file = Journal(os.path.join(folder, f"journal-{self.number:012d}.bin"))

    def append(self, label: Mapping[str, Any], chunk: Chunk) -> None:
        """Write a chunk. After this call, the end of the process does not destroy it.

        Args:
            label: Further values of the record, as JSON.
            chunk: The chunk.

        Raises:
            CheckpointError: If the chunk cannot be written, or contains objects that need a pickle.
        """
        try:
            record = encode(label, chunk)
        except TypeError as error:
            raise CheckpointError(self.folder, f"cannot store a step in a journal: {error}") from error
        if self._file.size > _LARGE_FILE:
            self._file = ReplayJournal(self.folder)._file
        if not self._file.append([record]):
            raise CheckpointError(self._file.path, f"is too small for a chunk of {len(record)} bytes")


class JournaledBuffer:
    """A replay buffer, and the journal of the chunks that are stored in it after a save.

    Args:
        buffer: The buffer.

    Attributes:
        loaded: Folder and number of the journal of the save that the buffer has loaded. None if there is no journal.
    """

    has_no_rng = True  # the buffer is found by itself

    def __init__(self, buffer: Any) -> None:
        self.buffer = buffer
        self.loaded: tuple[str, int] | None = None
        self._journal: ReplayJournal | None = None

    def append_chunk(self, chunk: Chunk, env_ids: Sequence[Any], is_cut: bool, label: Mapping[str, Any]) -> None:
        """Store the steps of a chunk, and write it to the journal.

        Args:
            chunk: The chunk.
            env_ids: Ids of its environments.
            is_cut: True to end the running episodes of these environments first.
            label: JSON values that the journal contains beside the chunk.
        """
        for env_id in env_ids if is_cut else ():
            self.buffer.stop_current_episode(env_id)
        append_to_buffer(self.buffer, chunk, env_ids)
        self.write(chunk, env_ids, is_cut, label)

    def write(self, chunk: Chunk, env_ids: Sequence[Any], is_cut: bool, label: Mapping[str, Any]) -> None:
        """Write a chunk that has been stored to the journal, if there is one; see `append_chunk`."""
        if self._journal is not None:
            self._journal.append({**label, "env_ids": [*env_ids], "is_cut": is_cut}, chunk)

    def begin(self, folder: str) -> int:
        """Begin a new journal, because the buffer was saved. Return its number.

        Args:
            folder: Folder of the save.
        """
        self._journal = ReplayJournal(folder)
        return self._journal.number

    def restore_journal(self, *, keeps: bool) -> list[dict[str, Any]]:
        """Store the steps after the save that was loaded again, and begin a new journal.

        Args:
            keeps: False to remove the journals instead, because the run will repeat these steps.

        Returns:
            The labels of the chunks.

        Raises:
            CheckpointError: If a journal is damaged.
        """
        if self.loaded is None:
            return []
        (folder, number), self.loaded = self.loaded, None
        self._journal, labels = None, []
        for label, chunk in read_chunks(folder, number) if keeps else ():
            self.append_chunk(chunk, label["env_ids"], label["is_cut"], label)
            labels.append(label)
        if not keeps:
            drop_journals(folder, number)
        self._journal = ReplayJournal(folder, number)
        return labels


def read_chunks(folder: str, number: int) -> Iterator[tuple[dict[str, Any], Chunk]]:
    """Yield the labels and chunks of a journal and of all later ones, oldest first.

    A journal that ends in an incomplete record is read up to this record.

    Raises:
        CheckpointError: If a file cannot be read, or is no journal of chunks.
    """
    for _, path in _journals(folder, number):
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
    for _, path in _journals(folder, number):
        with named_errors(path, "removed"):
            os.unlink(path)


def _journals(folder: str, first: int) -> list[tuple[int, str]]:
    """Return the numbers, from `first` on, and the paths of the journals in a folder, oldest first."""
    names = names_in(folder) if os.path.isdir(folder) else []
    found = [(int(match[1]), os.path.join(folder, match[0])) for match in map(JOURNAL.fullmatch, names) if match]
    return sorted(each for each in found if each[0] >= first)


def encode(label: Mapping[str, Any], chunk: Chunk) -> bytes:
    """Return a chunk and a label as one record.

    Raises:
        TypeError: If a column contains objects of other types than `to_json` supports.
    """
    structure, leaves = structure_of({field.name: getattr(chunk, field.name) for field in dataclasses.fields(chunk)})
    arrays: dict[int, tuple[int, NDArray[Any]]] = {}  # by identity, because columns share frames
    plain = [_to_plain(leaf, arrays) for leaf in leaves]
    forms = [[array.dtype.str, array.shape] for _, array in arrays.values()]
    head = json.dumps({"label": label, "structure": to_json(structure), "leaves": plain, "arrays": forms})
    content: list[Any] = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for _, array in arrays.values()]
    return b"".join([_LENGTH.pack(len(head)), head.encode("ascii"), *content])


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
        if np.dtype(code).kind not in _DTYPE_KINDS:
            raise ValueError(f"an array has the dtype {code!r:.80}")
        size = np.dtype(code).itemsize * int(np.prod(shape))
        arrays.append(np.frombuffer(record[at : at + size], code).reshape(shape))
        at += size
    leaves = [_from_plain(plain, arrays) for plain in head["leaves"]]
    return head["label"], Chunk(**map_structure(lambda i: leaves[i], from_json(head["structure"])))


def _to_plain(leaf: Any, arrays: dict[int, tuple[int, NDArray[Any]]]) -> Any:
    """Return a leaf as JSON values that contain the numbers of its arrays. Add the arrays to `arrays`."""
    if isinstance(leaf, FrameStacks):
        form = leaf.form._asdict() | {"dtype": leaf.dtype.str}
        return [_to_plain(leaf.frames, arrays), _to_plain(leaf.index, arrays), to_json(form), leaf.is_lazy]
    if not isinstance(leaf, np.ndarray) or leaf.dtype == object:
        return to_json({"values": leaf if leaf is None else leaf.ravel().tolist(), "shape": np.shape(leaf)})
    if leaf.dtype.kind not in _DTYPE_KINDS:
        raise TypeError(f"an array of {leaf.dtype} cannot be saved")
    return arrays.setdefault(id(leaf), (len(arrays), leaf))[0]


def _from_plain(plain: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return the leaf that `_to_plain` converted."""
    if isinstance(plain, int):
        return arrays[plain]
    if isinstance(plain, list):
        form = from_json(plain[2])
        return FrameStacks(
            arrays[plain[0]], arrays[plain[1]], StackForm(**form | {"dtype": np.dtype(form["dtype"])}), plain[3]
        )
    values, shape = from_json(plain).values()
    return None if values is None else np.fromiter(values, object, len(values)).reshape(shape)
