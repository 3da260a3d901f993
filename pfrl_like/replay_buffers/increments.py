"""The content of a buffer in a folder that many saves share: each writes what is new since the one before.

    segment-<hex>.bin          items that were new in one save: observations, actions, rewards, further columns
    table-<hex>.bin            of one save: what changes (priorities, running episodes), what joins its segments, and a
                               patch: what has been changed of their items since they were written

A save is named by its reference, a dict for JSON that says which files belong to it. Files never change; `prune`
removes those that no reference names any more.
"""

import contextlib
import dataclasses
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import changed_since, dump_segment, dump_table, join
from pfrl_like.replay_buffers.saved import SavedBuffer, refusing_misfits, sequence_number
from pfrl_like.storage import make_directory, plain_json, read_arrays, write_arrays
from pfrl_like.storage.atomic import names_in

_LARGEST = 1 << 14  # items of a segment
_WORN = 4  # a segment is written anew once more than one in so many of its items has been changed
_NAME = re.compile(r"(segment|table)-[0-9a-f]{16}\.bin")
_OWN = re.compile(rf"{_NAME.pattern}|\.tmp-(segment|table)-.*")

Arrays = dict[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class SavedFile:
    """A file as a reference names it.

    Attributes:
        name: Its name in the folder.
        size: Its bytes.
        crc32: Its checksum.
        first: Of a segment: sequence number of its first item.
        count: Of a segment: how many items it has.
        edits: Of a segment: how many edits of stored steps it includes.
    """

    name: str
    size: int
    crc32: int
    first: int = 0
    count: int = 0
    edits: int = 0

    @property
    def end(self) -> int:
        """Of a segment: sequence number of the item after its last one."""
        return self.first + self.count

    @classmethod
    def write(cls, folder: str, kind: str, header: Mapping[str, Any], arrays: Arrays, **options: Any) -> "SavedFile":
        """Write a new file of arrays; when this returns it would survive a power cut."""
        name = f"{kind}-{secrets.token_hex(8)}.bin"
        return cls(name, *write_arrays(os.path.join(folder, name), header, arrays, **options))

    def read(self, folder: str, *, allow_pickle: bool) -> tuple[dict[str, Any], Arrays]:
        """Its header and its arrays.

        Raises:
            CheckpointError: If it is missing, damaged, or not the one that was written.
        """
        path = os.path.join(folder, self.name)
        return read_arrays(path, allow_pickle=allow_pickle, size=self.size, checksum=self.crc32)

    def path_in(self, folder: str) -> str:
        """Where it is, also when the working directory is another one."""
        return os.path.abspath(os.path.join(folder, self.name))

    def is_there(self, folder: str) -> bool:
        """Whether the folder has a file of this name and size."""
        try:
            return os.path.getsize(os.path.join(folder, self.name)) == self.size
        except OSError:
            return False

    @classmethod
    def of(cls, entry: Any) -> "SavedFile":
        """The file that an entry of a reference names.

        Raises:
            ValueError: If it names none.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}
        given = entry if isinstance(entry, Mapping) and set(entry) <= set(defaults) else {}
        name, *numbers = ({**defaults, **given}).values()
        if type(name) is not str or not _NAME.fullmatch(name) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"a reference names {entry!r}, expected a file of an increment")
        return cls(name, *numbers)


class IncrementalBuffer(SavedBuffer):
    """What `ReplayBuffer` does with checkpoints that follow one another."""

    def save_increment(
        self, folder: str | os.PathLike[str], last: Mapping[str, Any] | None = None, *, allow_pickle: bool = False
    ) -> dict[str, Any]:
        """Write what is new since another save, of this buffer or of what was loaded into it.

        Steps that cannot be sampled yet are written every time; small segments are joined with what comes after them.

        Args:
            folder: Where the files of all saves are; made if it does not exist.
            last: The reference of that save, whose files have to be there still. One of another content, or None, makes
                everything new.
            allow_pickle: As in `save`.

        Returns:
            The reference, for `load_increment` and the next save.

        Raises:
            CheckpointError: If something cannot be written; what earlier references name is still in place.
        """
        if self._own:
            return {**super().save_increment(folder), "is_whole": True}  # since nobody knows what is new in it
        folder = os.fspath(folder)
        make_directory(folder)
        segments = self._segments_of(folder, last)
        start = segments[-1].end if segments else self._first
        while segments and self._joins(segments[-1], start):
            start = max(segments.pop().first, self._first)
        segments = [segment for segment in segments if not self._is_worn(segment)]
        begins, ends = [self._first, *(each.end for each in segments)], [*(each.first for each in segments), self._next]
        for begin, end in zip(begins, ends, strict=True):
            for first in range(begin, end, _LARGEST):
                count = min(_LARGEST, end - first)
                arrays = dump_segment(self._columns, self._rows(np.arange(first, first + count)))
                written = SavedFile.write(folder, "segment", {}, arrays, allow_pickle=allow_pickle)
                segments.append(dataclasses.replace(written, first=first, count=count, edits=self._columns.edits))
        segments.sort(key=lambda segment: segment.first)
        bounds = np.array([max(segment.first, self._first) for segment in segments] + [self._next]) - self._first
        since = np.array([segment.edits for segment in segments], np.int64)
        state = self._state(partial(dump_table, bounds=bounds, since=since))
        table = SavedFile.write(folder, "table", state["header"], state["arrays"], allow_pickle=allow_pickle)
        there = {name: path for name, path in self._increments.items() if os.path.exists(path)}
        self._increments = there | {table.name: table.path_in(folder)}
        return self._reference(folder, segments, table, state["rng"])

    def _joins(self, segment: SavedFile, end: int) -> bool:
        """Whether a segment is written anew with the items from `end` on: no larger than these, and small with them."""
        new = self._next - end
        return segment.count <= new and self._next - max(segment.first, self._first) <= _LARGEST

    def _is_worn(self, segment: SavedFile) -> bool:
        """Whether so many of a segment's items have been changed that it is written anew, instead of a long patch."""
        if self._columns.edits == segment.edits:
            return False
        rows = self._rows(np.arange(max(segment.first, self._first), segment.end))
        return _WORN * int(changed_since(self._columns, rows, segment.edits).any(axis=1).sum()) > len(rows)

    def _segments_of(self, folder: str, last: Mapping[str, Any] | None) -> list[SavedFile]:
        """The segments of a reference that hold items of this buffer, if it is one that this content goes on from."""
        if last is None or last["table"]["name"] not in self._increments:
            return []
        segments = [SavedFile.of(entry) for entry in last["segments"]]
        segments = [segment for segment in segments if segment.end > self._first]
        return segments if all(segment.is_there(folder) for segment in segments) else []

    def _reference(self, folder: str, segments: list[SavedFile], table: SavedFile, rng: Any) -> dict[str, Any]:
        reference = {
            "kind": self._kind,
            "segments": [dataclasses.asdict(segment) for segment in segments],
            "table": dataclasses.asdict(table),
            "rng": rng,
        }
        plain: dict[str, Any] = plain_json(reference, folder)
        return plain

    def load_increment(
        self, folder: str | os.PathLike[str], reference: Mapping[str, Any], *, allow_pickle: bool = False
    ) -> None:
        """Replace the content, and the state of `rng`, by that of a save.

        Args:
            folder: Where its files are.
            reference: What `save_increment` gave.
            allow_pickle: As in `load`.

        Raises:
            CheckpointError: If a file is missing or damaged, or it is the state of another kind of buffer or of `rng`;
                the old content stays.
        """
        folder = os.fspath(folder)
        with refusing_misfits(folder):
            if reference.get("is_whole"):
                return super().load_increment(folder, reference)
            table = SavedFile.of(reference["table"])
            header, arrays = table.read(folder, allow_pickle=allow_pickle)
            segments = _live(reference["segments"], sequence_number(header, "first"), int(header["n_items"]))
            parts = ((file.read(folder, allow_pickle=allow_pickle)[1], count) for file, count in segments)
            columns, joined = join(header["columns"], arrays, parts)
            state = {"header": header, "arrays": arrays | joined, "rng": reference["rng"]}
            self._load_state(state, lambda header, arrays: columns)
            self._increments = {table.name: table.path_in(folder)}


def _live(entries: Iterable[Any], first: int, n: int) -> Iterator[tuple[SavedFile, int]]:
    """The segments of a reference, and how many of each one's items, the last ones, are among these."""
    at = first
    for segment in map(SavedFile.of, entries):
        if not segment.first <= at < segment.end:
            raise ValueError("its segments do not follow one another")
        yield segment, segment.end - at
        at = segment.end
    if at != first + n:
        raise ValueError("its segments do not hold its items")


def prune(folder: str | os.PathLike[str], kept_references: Iterable[Mapping[str, Any]]) -> None:
    """Remove the files of increments that none of these references names; nothing else, and not while one is written.

    Args:
        folder: Where they are; nothing happens if it does not exist.
        kept_references: What `save_increment` gave.

    Raises:
        CheckpointError: If one of these is no reference, or the folder cannot be read; nothing is removed.
    """
    folder = os.fspath(folder)
    with refusing_misfits(folder):
        entries = [entry for kept in kept_references for entry in (kept["table"], *kept["segments"])]
        names = {SavedFile.of(entry).name for entry in entries}
    for name in names_in(folder) if os.path.isdir(folder) else ():
        if _OWN.fullmatch(name) and name not in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
