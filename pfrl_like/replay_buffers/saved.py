"""The state of a replay buffer, its file, and a folder of increments that many saves share."""

import contextlib
import copy
import dataclasses
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Columns, Indices, changed_since, dump, dump_segment, dump_table, join, restore
from pfrl_like.random_streams.streams import get_rng_state, set_rng_state
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers.memory import Memory, OwnMemory, without_weight
from pfrl_like.storage import is_array_file, make_directory, plain_json, read_arrays, read_pickle, write_arrays
from pfrl_like.storage.atomic import names_in, refused
from pfrl_like.utils.random import RandomSource

_LARGEST_NUMBER = 2**62
_LARGEST = 1 << 14  # items of a segment
_WORN = 4  # a segment is written anew once more than one in so many of its items has been changed
#: What a saved state is that cannot be taken up.
MISFIT = "holds no buffer that fits this one"
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


class SavedBuffer(AbstractReplayBuffer):
    """What `ReplayBuffer` does with files, each by itself or one after the other; the fields are described there."""

    num_steps: int
    _kind = "replay buffer"
    _rng: RandomSource
    _columns: Columns
    _ring: Indices
    _first: int
    _next: int
    _resumed: set[Any]
    _own: OwnMemory | None
    _increments: dict[str, str]  # tables of the increments that this content goes on from, and where they were written
    stored_steps: Callable[[], tuple[Columns, Indices]]
    _own_in_columns: Callable[[OwnMemory], "SavedBuffer"]
    _rows: Callable[[Indices], Indices]
    _evict: Callable[[], None]
    _drop_items: Callable[[int], None]

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on exactly: a JSON header, arrays by name, and the state of `rng`.

        Running episodes are part of it. An environment whose next step does not begin with the observation that its
        running episode waits for begins a new episode.
        """
        return self._own_in_columns(self._own).state_dict() if self._own else self._state(dump)

    def _state(self, dump: Callable[[Columns, Indices], tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
        """`state_dict`, with the columns in the form that a function gives them."""
        columns, arrays = dump(*self.stored_steps())
        own, own_arrays = self._own_state()
        header = {
            "kind": self._kind,
            "num_steps": self.num_steps,
            "first": self._first,
            "n_items": self._next - self._first,
            "columns": columns,
            "own": own,
        }
        arrays |= {f"own/{name}": array for name, array in own_arrays.items()}
        return {"header": header, "arrays": arrays, "rng": get_rng_state(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` gave; items beyond this buffer's capacity leave, the oldest first.

        Raises:
            ValueError: If it is of another kind of buffer or of `rng`, or does not fit together; the old content stays.
        """
        self._load_state(state, restore)

    def _load_state(self, state: Mapping[str, Any], restore: Callable[[Any, Any], Columns]) -> None:
        """`load_state_dict`, with columns that a function makes."""
        header, arrays = state["header"], state["arrays"]
        for name, mine in (("kind", self._kind), ("num_steps", self.num_steps)):
            if header.get(name) != mine:
                raise ValueError(f"its {name} is {header.get(name)!r}, expected {mine!r} as in this buffer")
        columns, first, n = restore(header["columns"], arrays), sequence_number(header, "first"), int(header["n_items"])
        waiting = sorted(row for run in columns.running.values() for row in run.waiting)
        n_steps = len(arrays["reward"])
        if not 0 <= n <= n_steps or waiting != list(range(n + 1, n_steps + 1)):
            raise ValueError("its number of items does not fit its steps")
        rng_state = state.get("rng")
        if rng_state is not None:
            set_rng_state(copy.deepcopy(self._rng), rng_state)
        if self.num_steps > 1:
            columns.find_windows(np.arange(1, n + 1), self.num_steps)
        own = {name.removeprefix("own/"): array for name, array in arrays.items() if name.startswith("own/")}
        self._load_order(header, arrays, own, first, n)
        # Nothing below can fail: the content is the old one up to here, the new one from here on.
        container, self._own = self._own, None
        self._columns = columns
        self._first, self._next = first, first + n
        self._ring = np.zeros(n + 1024, np.int64)
        self._ring[np.arange(first, first + n) % len(self._ring)] = np.arange(1, n + 1)
        self._resumed = set(columns.running)
        self._increments = {}
        if rng_state is not None:
            set_rng_state(self._rng, rng_state)
        self._evict()
        self._give_own(container)

    def save(self, filename: str, *, allow_pickle: bool = False) -> None:
        """Write the content and the state of `rng` to one file, atomically.

        Args:
            filename: The file; an old one of this name is replaced.
            allow_pickle: Pickle what is no array: object observations, actions, extras, names of environments.

        Raises:
            CheckpointError: If it cannot be written, for instance because it needs `allow_pickle`.
        """
        state = self.state_dict()
        write_arrays(filename, {**state["header"], "rng": state["rng"]}, state["arrays"], allow_pickle=allow_pickle)

    def load(self, filename: str, *, allow_pickle: bool = False) -> None:
        """Replace the content by that of a file, and the state of `rng` if the saved buffer had one of its kind.

        Args:
            filename: What `save` wrote or, with `allow_pickle`, what PFRL wrote.
            allow_pickle: Read pickled objects. They can run no code, but say it only of files whose origin is known.

        Raises:
            CheckpointError: If the file is damaged or holds no buffer that fits; the old content stays.
        """
        with refused(filename, MISFIT):
            if is_array_file(filename):
                header, arrays = read_arrays(filename, allow_pickle=allow_pickle)
                rng = header.get("rng")
                fits = _kind_of_rng(rng) == _kind_of_rng(get_rng_state(self._rng))
                self.load_state_dict({"header": header, "arrays": arrays, "rng": rng if fits else None})
            else:
                self._load_pfrl(read_pickle(filename, allow_pickle=allow_pickle))

    def _load_pfrl(self, content: Any) -> None:
        """Replace the content by that of PFRL's pickle: a queue of items, or a prioritised one."""
        own, self._own = self._own, None
        before = self.state_dict()
        self._clear()
        try:
            self._append_pfrl(content)
        except BaseException:
            self._clear()
            self.load_state_dict(before)
            self._own = own
            raise
        self._give_own(own)

    def _append_pfrl(self, content: Any) -> None:
        prioritized = hasattr(content, "priority_sums")
        self._append_windows(content.data if prioritized else content.items())
        if prioritized and self.prioritized:
            self._load_pfrl_priorities(content, self._first, len(self))

    def _load_pfrl_priorities(self, content: Any, first: int, n: int) -> None:
        header = {**self._own_state()[0], "max_priority": content.max_priority, "tree": None}
        priority = np.array(content.priority_sums.values(), np.float64)
        self._load_own_state(header, {"priority": priority[len(priority) - n :]}, first, n)

    def _append_windows(self, windows: Iterable[list[dict[str, Any]]]) -> None:
        """Append PFRL's items; windows that share a transition object are of one episode."""
        episode_of: dict[int, int] = {}
        for window in windows:
            if not 1 <= len(window) <= self.num_steps:
                raise ValueError(f"an item has {len(window)} steps, expected at most num_steps={self.num_steps}")
            episode = 0 if self.num_steps == 1 else episode_of.get(id(window[0]), len(episode_of))
            for step in window:
                if id(step) not in episode_of:
                    episode_of[id(step)] = episode
                    self.append(**without_weight(step), env_id=("pfrl", episode))
            if len(window) < self.num_steps:
                self.stop_current_episode(("pfrl", episode))
        if self.num_steps == 1:
            self.stop_current_episode(("pfrl", 0))

    def _clear(self) -> None:
        for env_id in list(self._columns.running):
            self.stop_current_episode(env_id)
        self._drop_items(len(self))
        self._columns = Columns()
        self._ring = np.zeros(1024, np.int64)
        self._resumed = set()

    def _give_own(self, own: OwnMemory | None) -> None:
        """Let a container of the user's have what was loaded into the columns; without one it stays there."""
        if own is not None and own.container is not None:
            items = copy.deepcopy(Memory(self)[:])
            self._clear()
            own.replace(items)
            self._own = own

    # Checkpoints that follow one another

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
        with refused(folder, MISFIT):
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

    # What the buffers fill in

    def _load_order(
        self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], own: dict[str, NDArray[Any]], first: int, n: int
    ) -> None:
        """Check and take up what belongs to the order of the items; refuse before anything is changed."""
        self._load_own_state(header["own"], own, first, n)

    def _own_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a subclass adds to `state_dict`: values for JSON, and arrays."""
        return {}, {}

    def _load_own_state(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]], first: int, n: int) -> None:
        """Take up what `_own_state` gave, for items `first` to `first + n - 1`; refuse before anything is changed."""


def _kind_of_rng(state: Any) -> Any:
    """Which generators have such a state; None for the global stream."""
    return None if state is None else (state["bit_generator"], set(state))


def sequence_number(header: Mapping[str, Any], name: str) -> int:
    """A sequence number of a saved state.

    Raises:
        ValueError: If it is one that counting on from would leave 64 bits.
    """
    number = int(header[name])
    if not 0 <= number <= _LARGEST_NUMBER:
        raise ValueError(f"its {name} is {number}, expected a number from 0 to {_LARGEST_NUMBER}")
    return number


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
    with refused(folder, MISFIT):
        entries = [entry for kept in kept_references for entry in (kept["table"], *kept["segments"])]
        names = {SavedFile.of(entry).name for entry in entries}
    for name in names_in(folder) if os.path.isdir(folder) else ():
        if _OWN.fullmatch(name) and name not in names:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
