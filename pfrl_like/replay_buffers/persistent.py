"""Replay buffers that store their content in a directory. A later process can restore the content."""

import functools
import inspect
import logging
import os
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.columns import Columns, Indices, RecordedColumns, load_locators, mark_used
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer
from pfrl_like.replay_buffers.memory import StoredTransition
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.rewinding import (
    CAPACITY,
    RewindingBuffer,
    ancestor_of,
    check_shards,
    rerun_paths,
    shard_of,
)
from pfrl_like.storage.journal import SYNCED
from pfrl_like.storage.log_directory import ColumnFiles, LogDirectory, LoggedState
from pfrl_like.storage.pickles import is_pfrl_directory
from pfrl_like.utils.checks import check_counts, warn_once
from pfrl_like.utils.random import RandomSource

_LOGGER = logging.getLogger(__name__)
_FORMAT = "pfrl_like persistent replay buffer"
_ATTEMPTS = 3
#: Arguments that are not needed to open the directory of an open buffer again, and `rng`.
_NOT_REOPENED = {"ancestor", "logger", "distributed", "group", "rng"}


class PersistentBuffer(RewindingBuffer):
    """Mix-in that stores a buffer's content in a directory. List it before the buffer's class among the bases.

    When `append` returns, the step has been passed to the operating system. It is therefore not lost if the process
    ends or crashes. If the machine fails, the steps since the last `sync` are lost. The buffer calls `sync` after
    `sync_every` steps, and at the first step after `sync_seconds`. `close` and `state_dict` also sync.
    """

    def _open(
        self, dirname: Any, ancestor: Any, logger: Any, shard: str | None,
        sync_every: int, sync_seconds: float, journal_length: int,
    ) -> None:  # fmt: skip
        self.sync_every, self.sync_seconds, self.journal_length = sync_every, sync_seconds, journal_length
        check_counts(sync_every=sync_every, journal_length=journal_length)
        if not sync_seconds >= 0:
            raise ValueError(f"sync_seconds: got {sync_seconds}, expected at least 0")
        if not dirname:
            raise ValueError(f"dirname: got {dirname!r}, expected a directory")
        ancestor_path = None if ancestor is None else os.fspath(ancestor)
        # The path is absolute, because the working directory may change.
        root, source = rerun_paths(os.path.abspath(dirname), ancestor_path, shard)
        self.dirname = root if shard is None else os.path.join(root, shard)

        for path in (root, ancestor_path):
            if path is not None and is_pfrl_directory(path):
                advice = f"open a buffer in a new directory and call its method load({path!r}, allow_pickle=True)"
                raise CheckpointError(path, f"is the directory of a persistent buffer of PFRL: {advice}")
        self.logger = _LOGGER if logger is None else logger
        self._appending = False
        # The directory may contain more items than this capacity. They are restored first and then removed.
        self._wanted_capacity = self._capacity
        self._unsynced, self._last_sync = 0, time.monotonic()
        self._process = os.getpid()
        properties = {"format": _FORMAT, "kind": self._kind, "num_steps": self.num_steps}
        check_shards(root, shard)
        self._directory = LogDirectory(self.dirname, properties)
        self._files = ColumnFiles(self.dirname)
        try:
            if source is not None:
                self._copy_ancestor(ancestor_of(source, shard))
            elif self._directory.is_new:
                self._directory.check_no_columns()
                self._set_empty_columns(self._files)
            else:
                self._restore()
            self._write_state()
        except BaseException:
            self._files.close()
            self._directory.close()
            raise

    # Opening

    def _set_empty_columns(self, files: ColumnFiles) -> RecordedColumns:
        """Replace the columns with empty columns whose values are stored in these files. Return the new columns."""
        self._files = files
        self._columns = columns = self._empty_columns(files)
        return columns

    def _copy_ancestor(self, ancestor: str) -> None:
        if not self._directory.is_new:
            raise CheckpointError(self.dirname, f"already contains a buffer; leave {ancestor=} out to open it")
        self._directory.check_no_columns()
        for attempt in range(_ATTEMPTS):
            try:
                self._directory.copy(ancestor)
                return self._restore()
            except BaseException as error:
                self._directory.clear()
                if attempt + 1 == _ATTEMPTS or not isinstance(error, CheckpointError) or error.path == ancestor:
                    raise
                # Copy again: the process that writes the ancestor may have overwritten rows during the copy.

    def _restore(self) -> None:
        logged, files = self._directory.read()
        # Directories of older versions do not contain the capacity.
        self._capacity = capacity = logged.header.get(CAPACITY, self._wanted_capacity)
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise CheckpointError(self.dirname, f"is damaged: its capacity is {capacity!r:.80}")
        n_complete = self._replay(logged, files, len(logged.records))
        if n_complete < len(logged.records):
            self._set_empty_columns(files)
            self._replay(logged, files, n_complete)
        files.grow()
        self._protect_saved_rows()
        lost = len(logged.records) - n_complete
        if lost:
            self.logger.warning("%s: the last %d records are incomplete and are ignored", self.dirname, lost)
        held = len(self) if CAPACITY in logged.header else max(len(self), int(logged.header["n_items"]))
        self._capacity = self._wanted_capacity
        self._evict()
        if dropped := held - len(self):
            removed = f"the oldest {dropped:,} of {held:,} transitions are removed, because"
            advice = "to keep all transitions of a directory, open it with a larger capacity"
            text = f"{self.dirname}: {removed} capacity is {self._capacity:,}; {advice}"
            warn_once(("rows dropped", self.dirname), text)

    def _replay(self, logged: LoggedState, files: ColumnFiles, count: int) -> int:
        """Rebuild the content from the state and the first `count` records. Return the number of complete records."""
        n_replayed = 0
        try:
            columns = self._set_empty_columns(files)
            self._load_state(logged._asdict(), lambda header, arrays: load_locators(header, arrays, columns))
            for n_replayed, record in enumerate(logged.records[:count]):
                if record != SYNCED:
                    self._replay_one(columns.replay(record, check=n_replayed >= logged.synced))
            n_replayed = -1
            mark_used(*self.stored_steps(), check=True)
        except CheckpointError:
            raise
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, MemoryError) as error:
            if logged.synced <= n_replayed < count:
                return n_replayed
            raise CheckpointError(self.dirname, f"is damaged: {error}") from error
        columns.records.clear()
        self._resumed = set(columns.running)
        return count

    def _replay_one(self, event: tuple[Any, int, bool] | None) -> None:
        if event is None:
            return
        env_id, row, terminal = event
        if row:
            if self._horizon != 1:
                self._queue_step(env_id, row)
            else:
                self._add_items([row])
        if terminal or not row:
            super().stop_current_episode(env_id)

    # Storing

    def _fill_from(self, columns: Columns, episodes: list[Indices]) -> None:
        for rows in episodes:
            for row in rows:  # one step at a time, so that only one step is in memory
                step = columns.transitions(np.array([row]))[0]
                del step["next_action"]
                self.append(**step)
            self.stop_current_episode()

    def append_batch(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        env_ids: Sequence[Any] | None = None,
        **extra: Any,
    ) -> None:
        """Store one transition of each of several environments. End the episodes that are terminated or truncated.

        Observations are a list, a tuple or a stacked array of length k. Nested observations may also be one
        nested structure of stacked arrays.

        Raises:
            ValueError: If a value does not have the shape and type of the first transition, or is not an array of
                numbers. Nothing is stored.
            CheckpointError: If the buffer is closed or belongs to another process. Nothing is stored. The error is also
                raised if the disk is full or reports an error. Later calls cannot store anything either.
        """
        self._check_open()
        self._appending = True
        try:
            super().append_batch(obs, action, reward, next_obs, terminated, truncated, env_ids, **extra)
        except (CheckpointError, OSError) as error:
            self._failure = f"cannot store any more after an earlier error: {error}"
            raise
        finally:
            self._appending = False
            if self._failure is None:
                self._commit()

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of the environment `env_id`. Its next step starts a new episode."""
        if not self._appending:
            self._check_open()
        super().stop_current_episode(env_id)
        if not self._appending:
            self._commit()

    def _commit(self) -> None:
        if self._columns.records:
            self._call_or_disable(self._store)

    def _store(self) -> None:
        columns = self._columns
        is_full = self._directory.count > max(self.journal_length, len(self) // 2)
        if is_full or columns.schema != self._schema or not self._directory.append(columns.records):
            self._write_state()
            return
        self._unsynced += len(columns.records)
        columns.records.clear()
        if self._unsynced >= self.sync_every or time.monotonic() - self._last_sync >= self.sync_seconds:
            self.sync()

    def close(self) -> None:
        """Write all data and release the directory's lock. The buffer is then empty. A second call does nothing.

        Raises:
            CheckpointError: If the state cannot be written. The buffer is nevertheless closed, and all steps are in its
                files.
        """
        try:
            if self._failure is None and os.getpid() == self._process:
                self._write_state()
        finally:
            if self._failure != "is closed":
                self._failure = "is closed"
                self._columns = Columns()  # type: ignore[assignment]  # no more records are needed
                self._first = self._next
                self._directory.close()

    def hand_over(self) -> functools.partial[Self]:
        """Close the buffer. Return a function that opens it again with the same arguments, also in another process."""
        names = inspect.signature(type(self)).parameters.keys() - _NOT_REOPENED
        opens = functools.partial(type(self), **{name: getattr(self, name) for name in names}, rng=self._rng)
        self.close()
        return opens

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        advice = "change the step before you append it, or load a saved file into a ReplayBuffer and change it there"
        raise TypeError(f"cannot set {[*changes]}: {type(self).__name__} does not change its files; {advice}")

    def _set_memory(self, memory: Any) -> None:
        advice = "memory.append adds items, load replaces the content, and close frees the memory"
        reason = f"the content of {type(self).__name__} is in its directory: {advice}"
        raise TypeError(f"memory: got {type(memory).__name__}, but {reason}")

    # State

    def __reduce_ex__(self, protocol: Any) -> Any:
        advice = f"open a buffer in another directory with ancestor={self.dirname!r}"
        raise TypeError(f"{type(self).__name__} can neither be copied nor pickled: {advice}")

    def state_dict(self) -> dict[str, Any]:
        """Return the whole content, in the form of `ReplayBuffer.state_dict`, after a sync of the directory."""
        self.sync()
        return super().state_dict()

    def _load_pfrl(self, content: Any) -> None:
        is_episodic = isinstance(self, EpisodicReplayBuffer)
        other = EpisodicReplayBuffer(self._capacity) if is_episodic else ReplayBuffer(self._capacity, self.num_steps)
        other._load_pfrl(content)
        self.load_state_dict(other.state_dict())


class PersistentReplayBuffer(PersistentBuffer):
    """A `ReplayBuffer` in a directory: opening the directory again restores the content.

    Observations and extra columns are in memory-mapped files, so they may be larger than the memory. The actions and
    about 100 bytes per transition are in memory. Values must be arrays of numbers. Environment ids must be integers,
    strings or tuples of these. `save` writes the content to one file, which `ReplayBuffer` can also load. `load`
    replaces the content of the directory with the content of such a file. Call `close` at the end, or use the buffer as
    a context manager. The directory then opens faster the next time.

    If the directory contains more than `capacity` items, opening it removes the oldest items and logs a warning with
    their number. `num_steps` must be the same each time the directory is opened.

    Only one buffer at a time can open a directory. A second buffer raises an error. The lock of a process that has
    ended is ignored. Old NFS servers do not support locks: there, two machines could write at the same time.

    Args:
        dirname: The directory. It is created if it does not exist.
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
        ancestor: Directory of another persistent buffer. Its content is copied to `dirname`, which must be new. The
            ancestor is not changed.
        logger: Logger for two messages: the expected size of the directory, and the number of records that a crash has
            damaged. If None, the logger of this module is used.
        distributed: True to store the steps of each process of a `torch.distributed` group in its own subdirectory,
            `dirname/rank-<i>-of-<n>`. A process samples only from its own subdirectory. The group must have the same
            size each time the directory is opened. An `ancestor` has subdirectories for the same number of processes,
            or no subdirectories. In the second case every process copies the same content.
        group: The process group. If None, the default group is used.
        num_steps: Number of transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        rng: NumPy generator; None uses the global NumPy stream.
        sync_every: Number of steps and ends of episodes between syncs. If the machine fails, only the steps after the
            last sync are lost.
        sync_seconds: Number of seconds between syncs, checked each time something is stored.
        journal_length: Maximum number of steps and ends of episodes in the journal. Longer journals are allowed if the
            buffer is large: up to half the number of its items, and up to one GiB. If the journal is full, the whole
            state is written and a new journal begins.

    Raises:
        ValueError: If an argument is out of range.
        CheckpointError: If the directory is in use, does not contain a buffer of this kind, or is damaged, or if its
            disk is too small.
    """

    def __init__(
        self,
        dirname: str | os.PathLike[str],
        capacity: int | None,
        *,
        ancestor: str | os.PathLike[str] | None = None,
        logger: logging.Logger | None = None,
        distributed: bool = False,
        group: Any = None,
        num_steps: int = 1,
        rng: RandomSource = None,
        sync_every: int = 1_000,
        sync_seconds: float = 1.0,
        journal_length: int = 20_000,
    ) -> None:
        super().__init__(capacity, num_steps, rng=rng)
        shard = shard_of(distributed, group)
        self._open(dirname, ancestor, logger, shard, sync_every, sync_seconds, journal_length)


class PersistentEpisodicReplayBuffer(PersistentBuffer, EpisodicReplayBuffer):
    """An `EpisodicReplayBuffer` in a directory. `PersistentReplayBuffer` describes files, locks, `save` and `load`.

    If the directory contains more than `capacity` transitions, opening it removes the oldest episodes and logs a
    warning with the number of removed transitions. Transitions of running episodes are not counted.

    Args:
        dirname: The directory. It is created if it does not exist.
        capacity: Maximum number of transitions. If it is exceeded, the oldest episodes are removed. None if unbounded.
        ancestor: Directory of another persistent buffer. Its content is copied to `dirname`, which must be new. The
            ancestor is not changed.
        logger: Logger for two messages: the expected size of the directory, and the number of records that a crash has
            damaged. If None, the logger of this module is used.
        distributed: True to store the steps of each process of a `torch.distributed` group in its own subdirectory,
            `dirname/rank-<i>-of-<n>`. A process samples only from its own subdirectory. The group must have the same
            size each time the directory is opened. An `ancestor` has subdirectories for the same number of processes,
            or no subdirectories. In the second case every process copies the same content.
        group: The process group. If None, the default group is used.
        by_length: True to sample episodes in proportion to their length, so that steps of long and short episodes are
            equally likely. False to sample all episodes with equal probability.
        rng: NumPy generator; None uses the global NumPy stream.
        sync_every: Number of steps and ends of episodes between syncs. If the machine fails, only the steps after the
            last sync are lost.
        sync_seconds: Number of seconds between syncs, checked each time something is stored.
        journal_length: Maximum number of steps and ends of episodes in the journal. Longer journals are allowed if the
            buffer is large: up to half the number of its items, and up to one GiB. If the journal is full, the whole
            state is written and a new journal begins.

    Raises:
        ValueError: If an argument is out of range.
        CheckpointError: If the directory is in use, does not contain a buffer of this kind, or is damaged, or if its
            disk is too small.
    """

    def __init__(
        self,
        dirname: str | os.PathLike[str],
        capacity: int | None,
        *,
        ancestor: str | os.PathLike[str] | None = None,
        logger: logging.Logger | None = None,
        distributed: bool = False,
        group: Any = None,
        by_length: bool = False,
        rng: RandomSource = None,
        sync_every: int = 1_000,
        sync_seconds: float = 1.0,
        journal_length: int = 20_000,
    ) -> None:
        EpisodicReplayBuffer.__init__(self, capacity, by_length=by_length, rng=rng)
        shard = shard_of(distributed, group)
        self._open(dirname, ancestor, logger, shard, sync_every, sync_seconds, journal_length)

    def close(self) -> None:
        super().close()
        self._episodes = RandomAccessQueue()
        self._first_episode = self._next_episode
