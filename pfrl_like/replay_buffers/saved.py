"""Saving of replay buffers: as a state dict, as one file, or as files in a folder that several saves share."""

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
from pfrl_like.replay_buffers.memory import Memory, NewestTransitions, UserMemory, drop_weight
from pfrl_like.storage import is_array_file, make_directory, plain_json, read_arrays, read_pickle, write_arrays
from pfrl_like.storage.atomic import names_in, read_errors
from pfrl_like.utils.random import RandomSource

_LARGEST_NUMBER = 2**62
_LARGEST = 1 << 14  # maximum number of items of a segment
_REWRITE_FACTOR = 4  # a segment is rewritten if more than 1 / _REWRITE_FACTOR of its items were changed
#: Error message if a saved state cannot be loaded.
MISFIT = "does not contain a buffer that matches this buffer"
_NAME = re.compile(r"(segment|table)-[0-9a-f]{16}\.bin")
_OWN = re.compile(rf"{_NAME.pattern}|\.tmp-(segment|table)-.*")

#: Name of a journal: steps that were stored after a save, see `experiments.cluster.replay_journal`.
JOURNAL = re.compile(r"journal-([0-9]{12,})\.bin")

PathLike = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class SavedFile:
    """Description of one file of a save, an entry of the save's reference.

    A save has segments, files with the values of consecutive items, and a table, a file with everything else.

    Attributes:
        name: Name of the file in the folder.
        size: Size of the file in bytes.
        crc32: CRC-32 checksum of the file.
        first: For a segment, sequence number of its first item.
        count: For a segment, number of its items.
        edits: For a segment, number of edits of stored steps before the segment was written.
    """

    name: str
    size: int
    crc32: int
    first: int = 0
    count: int = 0
    edits: int = 0

    @property
    def end(self) -> int:
        """For a segment, sequence number of the item after its last item."""
        return self.first + self.count

    @classmethod
    def write(cls, folder: str, kind: str, header: Mapping[str, Any], arrays: Arrays, **options: Any) -> "SavedFile":
        """Write a new file of arrays, synced to the disk."""
        name = f"{kind}-{secrets.token_hex(8)}.bin"
        return cls(name, *write_arrays(os.path.join(folder, name), header, arrays, **options))

    def read(self, folder: str, *, allow_pickle: bool) -> tuple[dict[str, Any], Arrays]:
        """Read the header and the arrays of the file.

        Raises:
            CheckpointError: If the file is missing, damaged, or not the file that was written.
        """
        path = os.path.join(folder, self.name)
        return read_arrays(path, allow_pickle=allow_pickle, size=self.size, checksum=self.crc32)

    def path_in(self, folder: str) -> str:
        """Return the absolute path of the file."""
        return os.path.abspath(os.path.join(folder, self.name))

    def exists_in(self, folder: str) -> bool:
        """Return True if the folder has a file of this name and size."""
        path = self.path_in(folder)
        return os.path.exists(path) and os.path.getsize(path) == self.size

    @classmethod
    def from_entry(cls, entry: Any) -> "SavedFile":
        """Return the file that an entry of a reference describes.

        Raises:
            ValueError: If `entry` is not an entry of a reference.
        """
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}
        fields = entry if isinstance(entry, Mapping) and set(entry) <= set(defaults) else {}
        name, *numbers = ({**defaults, **fields}).values()
        if type(name) is not str or not _NAME.fullmatch(name) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"a reference names {entry!r}, expected a file of an increment")
        return cls(name, *numbers)


class SavedBuffer(AbstractReplayBuffer):
    """Base of `ReplayBuffer`: saves to one file or to incremental files. `ReplayBuffer` describes the fields."""

    num_steps: int
    _kind = "replay buffer"
    _rng: RandomSource
    _columns: Columns
    _ring: Indices
    _first: int
    _next: int
    _resumed: set[Any]
    _user_memory: UserMemory | None
    _increments: dict[str, str]  # paths of the tables of the increments that the content is based on, by name
    stored_steps: Callable[[], tuple[Columns, Indices]]
    _columns_of: Callable[[UserMemory], "SavedBuffer"]
    _rows: Callable[[Indices], Indices]
    _evict: Callable[[], None]
    _drop_items: Callable[[int], None]
    last_n_transitions = NewestTransitions()

    def state_dict(self) -> dict[str, Any]:
        """Return the whole content for `load_state_dict`: a JSON header, named arrays, and the state of `rng`.

        The content includes running episodes. After loading, an environment's running episode continues if the
        observation of its next step equals the newest observation of the episode. Otherwise a new episode begins.
        """
        return self._columns_of(self._user_memory).state_dict() if self._user_memory else self._state(dump)

    def _state(self, dump: Callable[[Columns, Indices], tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
        """Return `state_dict`. The function `dump` converts the columns to a header and arrays."""
        columns, arrays = dump(*self.stored_steps())
        extra, extra_arrays = self._extra_state()
        header = {"kind": self._kind, "num_steps": self.num_steps, "first": self._first}
        header |= {"n_items": self._next - self._first, "columns": columns, "own": extra}
        arrays |= {f"own/{name}": array for name, array in extra_arrays.items()}
        return {"header": header, "arrays": arrays, "rng": get_rng_state(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content with the result of `state_dict`. Remove the oldest items above the capacity.

        Raises:
            ValueError: If the state was saved by a different type of buffer or with a different type of `rng`, or if it
                is inconsistent. The old content stays.
        """
        self._load_state(state, restore)

    def _load_state(self, state: Mapping[str, Any], restore: Callable[[Any, Any], Columns]) -> None:
        """Implement `load_state_dict`. The function `restore` creates the columns."""
        header, arrays = state["header"], state["arrays"]
        for name, mine in (("kind", self._kind), ("num_steps", self.num_steps)):
            if header.get(name) != mine:
                raise ValueError(f"saved {name} is {header.get(name)!r}, expected {mine!r} as in this buffer")
        columns, first, n = restore(header["columns"], arrays), sequence_number(header, "first"), int(header["n_items"])
        waiting = sorted(row for run in columns.running.values() for row in run.waiting)
        n_steps = len(arrays["reward"])
        if not 0 <= n <= n_steps or waiting != list(range(n + 1, n_steps + 1)):
            raise ValueError("the number of items does not match the number of steps")
        rng_state = state.get("rng")
        if rng_state is not None:
            set_rng_state(copy.deepcopy(self._rng), rng_state)
        if self.num_steps > 1:
            columns.find_windows(np.arange(1, n + 1), self.num_steps)
        extra = {name.removeprefix("own/"): array for name, array in arrays.items() if name.startswith("own/")}
        self._load_order(header, arrays, extra, first, n)
        # No statement below can fail. If an error was raised before this line, the buffer still has the old content.
        container, self._user_memory = self._user_memory, None
        self._columns = columns
        self._first, self._next = first, first + n
        self._ring = np.zeros(n + 1024, np.int64)
        self._ring[np.arange(first, first + n) % len(self._ring)] = np.arange(1, n + 1)
        self._resumed = set(columns.running)
        self._increments = {}
        if rng_state is not None:
            set_rng_state(self._rng, rng_state)
        self._evict()
        self._move_to_container(container)

    def save(self, filename: str, *, allow_pickle: bool = False) -> None:
        """Write the content and the state of `rng` to one file, atomically.

        Args:
            filename: The file. An existing file of this name is replaced.
            allow_pickle: True to pickle values that are not arrays: object observations, actions, extra columns,
                environment ids.

        Raises:
            CheckpointError: If the file cannot be written, for instance because a value needs `allow_pickle`.
        """
        state = self.state_dict()
        write_arrays(filename, {**state["header"], "rng": state["rng"]}, state["arrays"], allow_pickle=allow_pickle)

    def load(self, filename: str, *, allow_pickle: bool = False) -> None:
        """Replace the content with the content of a file.

        The state of `rng` is loaded only if the file contains the state of a generator of the same type.

        Args:
            filename: File written by `save`. With `allow_pickle`, also a file of PFRL, or the directory of a persistent
                buffer of PFRL, which stays unchanged.
            allow_pickle: True to read pickled objects. They cannot run code, but a manipulated file can use any amount
                of memory. Use it only for files whose origin you know.

        Raises:
            CheckpointError: If the file is damaged or does not contain a matching buffer. The old content stays.
        """
        with read_errors(filename, MISFIT):
            if not os.path.isdir(filename) and is_array_file(filename):
                header, arrays = read_arrays(filename, allow_pickle=allow_pickle)
                rng = header.get("rng")
                states = rng, get_rng_state(self._rng)
                saved, own = (state and (state["bit_generator"], set(state)) for state in states)
                self.load_state_dict({"header": header, "arrays": arrays, "rng": rng if saved == own else None})
            else:
                self._load_pfrl(read_pickle(filename, allow_pickle=allow_pickle))

    def _load_pfrl(self, content: Any) -> None:
        """Replace the content with the content of PFRL's pickle: a queue of items, or a prioritised queue."""
        container, self._user_memory = self._user_memory, None
        before = self.state_dict()
        self._clear()
        try:
            self._append_pfrl(content)
        except BaseException:
            self._clear()
            self.load_state_dict(before)
            self._user_memory = container
            raise
        self._move_to_container(container)

    def _append_pfrl(self, content: Any) -> None:
        prioritized = hasattr(content, "priority_sums")
        self._append_windows(content.data if prioritized else content.items())
        if prioritized and self.prioritized:
            self._load_pfrl_priorities(content, self._first, len(self))

    def _load_pfrl_priorities(self, content: Any, first: int, n: int) -> None:
        header = {**self._extra_state()[0], "max_priority": content.max_priority, "tree": None}
        priority = np.array(content.priority_sums.values(), np.float64)
        self._load_extra_state(header, {"priority": priority[len(priority) - n :]}, first, n)

    def _append_windows(self, windows: Iterable[list[dict[str, Any]]]) -> None:
        """Append PFRL's items. Items that contain the same transition object belong to the same episode."""
        episode_of: dict[int, int] = {}
        for window in windows:
            if not 1 <= len(window) <= self.num_steps:
                raise ValueError(f"an item has {len(window)} steps, expected at most num_steps={self.num_steps}")
            episode = 0 if self.num_steps == 1 else episode_of.get(id(window[0]), len(episode_of))
            for step in window:
                if id(step) not in episode_of:
                    episode_of[id(step)] = episode
                    self.append(**drop_weight(step), env_id=("pfrl", episode))
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

    def _move_to_container(self, container: UserMemory | None) -> None:
        """Move the content from the columns to the user's container, if the buffer has a container."""
        if container is not None and container.container is not None:
            items = copy.deepcopy(Memory(self)[:])
            self._clear()
            container.replace(items)
            self._user_memory = container

    # Incremental checkpoints

    def save_increment(
        self, folder: PathLike, last: Mapping[str, Any] | None = None, *, allow_pickle: bool = False
    ) -> dict[str, Any]:
        """Write the changes since an earlier save of this buffer, or since the save that was loaded.

        Steps that cannot be sampled yet are written every time. Small segments are joined with the items after them.

        Args:
            folder: Folder of the files of all saves. It is created if it does not exist.
            last: The reference of the earlier save, whose files must exist. If it is None, or if the content of the
                buffer is not based on that save, the whole content is written.
            allow_pickle: True to pickle values that are not arrays: object observations, actions, extra columns,
                environment ids.

        Returns:
            The reference of the new save, a dict of JSON values, for `load_increment` and the next save.

        Raises:
            CheckpointError: If a file cannot be written. The files of earlier saves are unchanged.
        """
        if self._user_memory:
            return {**super().save_increment(folder), "is_whole": True}  # changes of a user's container are unknown
        folder = os.fspath(folder)
        make_directory(folder)
        segments = self._segments_of(folder, last)
        start = segments[-1].end if segments else self._first
        while segments and self._should_join(segments[-1], start):
            start = max(segments.pop().first, self._first)
        segments = [segment for segment in segments if not self._should_rewrite(segment)]
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
        existing = {name: path for name, path in self._increments.items() if os.path.exists(path)}
        self._increments = existing | {table.name: table.path_in(folder)}
        return self._reference(folder, segments, table, state["rng"])

    def _should_join(self, segment: SavedFile, end: int) -> bool:
        """Return True if a segment should be written again, as one segment with the items from `end` on.

        This is so if the segment is not larger than the number of these items, and if all fit in one segment.
        """
        new = self._next - end
        return segment.count <= new and self._next - max(segment.first, self._first) <= _LARGEST

    def _should_rewrite(self, segment: SavedFile) -> bool:
        """Return True if so many items of a segment were changed that it should be written again, without a patch."""
        if self._columns.edits == segment.edits:
            return False
        rows = self._rows(np.arange(max(segment.first, self._first), segment.end))
        return _REWRITE_FACTOR * int(changed_since(self._columns, rows, segment.edits).any(axis=1).sum()) > len(rows)

    def _segments_of(self, folder: str, last: Mapping[str, Any] | None) -> list[SavedFile]:
        """Return the segments of a save that contain items of this buffer; [] if the content is not based on it."""
        if last is None or last["table"]["name"] not in self._increments:
            return []
        segments = [SavedFile.from_entry(entry) for entry in last["segments"]]
        segments = [segment for segment in segments if segment.end > self._first]
        return segments if all(segment.exists_in(folder) for segment in segments) else []

    def _reference(self, folder: str, segments: list[SavedFile], table: SavedFile, rng: Any) -> dict[str, Any]:
        entries, entry = [dataclasses.asdict(segment) for segment in segments], dataclasses.asdict(table)
        reference = {"kind": self._kind, "segments": entries, "table": entry, "rng": rng}
        return dict(plain_json(reference, folder))

    def load_increment(self, folder: PathLike, reference: Mapping[str, Any], *, allow_pickle: bool = False) -> None:
        """Replace the content and the state of `rng` with the content and the state of a save.

        Args:
            folder: Folder of the files of the save.
            reference: The reference that `save_increment` returned.
            allow_pickle: True to read pickled objects. They cannot run code, but a manipulated file can use any amount
                of memory. Use it only for files whose origin you know.

        Raises:
            CheckpointError: If a file is missing or damaged, or was saved by a different type of buffer or with a
                different type of `rng`. The old content stays.
        """
        folder = os.fspath(folder)
        with read_errors(folder, MISFIT):
            if reference.get("is_whole"):
                return super().load_increment(folder, reference)
            table = SavedFile.from_entry(reference["table"])
            header, arrays = table.read(folder, allow_pickle=allow_pickle)
            segments = _stored_segments(reference["segments"], sequence_number(header, "first"), int(header["n_items"]))
            parts = ((file.read(folder, allow_pickle=allow_pickle)[1], count) for file, count in segments)
            columns, joined = join(header["columns"], arrays, parts)
            state = {"header": header, "arrays": arrays | joined, "rng": reference["rng"]}
            self._load_state(state, lambda header, arrays: columns)
            self._increments = {table.name: table.path_in(folder)}

    # Hooks of subclasses

    def _load_order(self, header: dict[str, Any], arrays: Arrays, extra: Arrays, first: int, n: int) -> None:
        """Check and load the state that depends on the order of the items. If this fails, nothing is changed."""
        self._load_extra_state(header["own"], extra, first, n)

    def _extra_state(self) -> tuple[dict[str, Any], Arrays]:
        """Return a subclass's additional state for `state_dict`: values for JSON, and arrays."""
        return {}, {}

    def _load_extra_state(self, header: dict[str, Any], arrays: Arrays, first: int, n: int) -> None:
        """Load the result of `_extra_state` for items `first` to `first + n - 1`. If this fails, nothing is changed."""


def sequence_number(header: Mapping[str, Any], name: str) -> int:
    """Read and check a sequence number of a saved state.

    Raises:
        ValueError: If the number is negative, or above 2**62; larger numbers could overflow 64 bits later.
    """
    number = int(header[name])
    if not 0 <= number <= _LARGEST_NUMBER:
        raise ValueError(f"saved {name} is {number}, expected a number from 0 to {_LARGEST_NUMBER}")
    return number


def _stored_segments(entries: Iterable[Any], first: int, n: int) -> Iterator[tuple[SavedFile, int]]:
    """Yield the segments of a reference, each with the number of its items among items `first` to `first + n - 1`.

    Raises:
        ValueError: If the segments do not cover these items without gaps.
    """
    at = first
    for segment in map(SavedFile.from_entry, entries):
        if not segment.first <= at < segment.end:
            raise ValueError("the segments of the save are not consecutive")
        yield segment, segment.end - at
        at = segment.end
    if at != first + n:
        raise ValueError("the segments of the save do not cover its items")


def prune(folder: PathLike, kept_references: Iterable[Mapping[str, Any]]) -> None:
    """Remove the files of all saves in a folder, except the files that the given references name.

    A reference with the key "journal" also keeps the journal of this number and all later ones. Files that neither
    `save_increment` nor a journal wrote are not removed. Do not call this function while a save is being written.

    Args:
        folder: Folder of the files. If it does not exist, nothing happens.
        kept_references: References of the saves to keep, as returned by `save_increment`.

    Raises:
        CheckpointError: If a reference is invalid, or the folder cannot be read. Nothing is removed.
    """
    folder, references = os.fspath(folder), [*kept_references]
    with read_errors(folder, MISFIT):
        entries = [entry for kept in references for entry in (kept["table"], *kept["segments"])]
        names = {SavedFile.from_entry(entry).name for entry in entries}
        first = min((int(kept["journal"]) for kept in references if "journal" in kept), default=0)
    for name in names_in(folder) if os.path.isdir(folder) else ():
        journal = JOURNAL.fullmatch(name)
        if (journal and int(journal[1]) < first) or (_OWN.fullmatch(name) and name not in names):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))
