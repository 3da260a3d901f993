"""Replay buffers whose content is kept in a directory and survives their process."""

import logging
import os
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.columns import Columns, Indices, RecordedColumns, restore_places, settle
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer
from pfrl_like.replay_buffers.memory import StoredTransition
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.rewinding import CAPACITY, RewindingBuffer, ancestor_of, diverted, refuse_shards, shard_of
from pfrl_like.storage.journal import SYNCED
from pfrl_like.storage.log_directory import ColumnFiles, LogDirectory, Logged
from pfrl_like.utils.checks import warn_once
from pfrl_like.utils.random import RandomSource

_LOGGER = logging.getLogger(__name__)
_FORMAT = "pfrl_like persistent replay buffer"
_ATTEMPTS = 3


class PersistentBuffer(RewindingBuffer):
    """Mix-in that keeps a buffer's content in a directory; it precedes the buffer's class among the bases.

    When `append` returns, the step has been written to the operating system, so it survives the end of the process,
    however that ends. If the machine fails, the steps since the last `sync` are lost. A sync happens every `sync_every`
    steps, every `sync_seconds` (at the next step), at `close` and in `state_dict`.
    """

    def _open(
        self, dirname: Any, ancestor: Any, logger: Any, shard: str | None,
        sync_every: int, sync_seconds: float, journal_length: int,
    ) -> None:  # fmt: skip
        self.sync_every, self.sync_seconds, self.journal_length = sync_every, sync_seconds, journal_length
        for name, least in (("sync_every", 1), ("sync_seconds", 0), ("journal_length", 1)):
            if not (value := getattr(self, name)) >= least:
                raise ValueError(f"{name}: got {value}, expected at least {least}")
        if not dirname:
            raise ValueError(f"dirname: got {dirname!r}, expected a directory")
        given = None if ancestor is None else os.fspath(ancestor)
        whole, source = diverted(os.path.abspath(dirname), given, shard)  # absolute: the working directory may change
        self.dirname = whole if shard is None else os.path.join(whole, shard)

        self.logger = _LOGGER if logger is None else logger
        self._appending = False
        self._wanted_capacity = self._capacity  # applied to a larger directory only after it has been restored
        self._unsynced, self._last_sync = 0, time.monotonic()
        self._process = os.getpid()
        marks = {"format": _FORMAT, "kind": self._kind, "num_steps": self.num_steps}
        refuse_shards(whole, shard)
        self._directory = LogDirectory(self.dirname, marks)
        self._files = ColumnFiles(self.dirname)
        try:
            if source is not None:
                self._descend(ancestor_of(source, shard))
            elif self._directory.is_new:
                self._directory.refuse_orphans()
                self._use(self._files)
            else:
                self._restore()
            self._write_state()
        except BaseException:
            self._files.close()
            self._directory.close()
            raise

    # Opening

    def _use(self, files: ColumnFiles) -> RecordedColumns:
        """Replace the store with an empty one over these files; returns it."""
        self._files = files
        self._columns = columns = self._empty_columns(files)
        return columns

    def _descend(self, ancestor: str) -> None:
        if not self._directory.is_new:
            raise CheckpointError(self.dirname, f"holds a buffer already; leave {ancestor=} out to continue it")
        self._directory.refuse_orphans()
        for attempt in range(_ATTEMPTS):
            try:
                self._directory.copy(ancestor)
                return self._restore()
            except BaseException as error:
                self._directory.clear()
                if attempt + 1 == _ATTEMPTS or not isinstance(error, CheckpointError) or error.path == ancestor:
                    raise  # other errors are retried: the ancestor's writer may have reused rows during the copy

    def _restore(self) -> None:
        logged, files = self._directory.read()
        self._capacity = capacity = logged.header.get(CAPACITY, self._wanted_capacity)  # older directories lack it
        if capacity is not None and (type(capacity) is not int or capacity < 1):
            raise CheckpointError(self.dirname, f"is damaged: its capacity is {capacity!r:.80}")
        whole = self._replay(logged, files, len(logged.records))
        if whole < len(logged.records):
            self._use(files)
            self._replay(logged, files, whole)
        files.grow()
        self._keep_saves()
        lost = len(logged.records) - whole
        if lost:
            self.logger.warning("%s: the last %d records were not complete and have been left out", self.dirname, lost)
        held = len(self) if CAPACITY in logged.header else max(len(self), int(logged.header["n_items"]))
        self._capacity = self._wanted_capacity
        self._evict()
        if dropped := held - len(self):
            warn_once(
                ("rows dropped", self.dirname),
                f"{self.dirname}: {dropped:,} of {held:,} transitions are dropped, the oldest ones: the directory held "
                f"more than capacity, {self._capacity:,}; a copy of it, or ancestor=, keeps them",
            )

    def _replay(self, logged: Logged, files: ColumnFiles, count: int) -> int:
        """Rebuild the content from the state and the first `count` records; returns how many of these are complete."""
        done = 0
        try:
            columns = self._use(files)
            self._load_state(logged._asdict(), lambda header, arrays: restore_places(header, arrays, columns))
            for done, record in enumerate(logged.records[:count]):
                if record != SYNCED:
                    self._replay_one(columns.replay(record, check=done >= logged.synced))
            done = -1
            settle(*self.stored_steps(), check=True)
        except CheckpointError:
            raise
        except (ValueError, TypeError, AttributeError, LookupError, OverflowError, MemoryError) as error:
            if logged.synced <= done < count:
                return done
            raise CheckpointError(self.dirname, f"is damaged: {error}") from error
        columns.records.clear()
        self._resumed = set(columns.running)
        return count

    def _replay_one(self, told: tuple[Any, int, bool] | None) -> None:
        if told is None:
            return
        env_id, row, terminal = told
        if row:
            if self._horizon != 1:
                self._wait(env_id, row)
            else:
                self._add_items([row])
        if terminal or not row:
            super().stop_current_episode(env_id)

    # Storing

    def _take_up(self, columns: Columns, episodes: list[Indices]) -> None:
        for rows in episodes:
            for row in rows:  # one at a time, so that only one step is in memory
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
        """Store one transition of each of several environments; ends the episodes that are terminated or truncated.

        Observations are a list, a tuple or a stacked array of length k; nested ones may also be a nest of these.

        Raises:
            ValueError: If a value does not fit the first transition, or is no array of numbers; nothing is stored.
            CheckpointError: If the buffer is closed, or belongs to another process; nothing is stored. If the disk is
                full or broken; nothing can be stored from then on.
        """
        self._check_open()
        self._appending = True
        try:
            super().append_batch(obs, action, reward, next_obs, terminated, truncated, env_ids, **extra)
        except (CheckpointError, OSError) as error:
            self._refusal = f"cannot store any more since {error}"
            raise
        finally:
            self._appending = False
            if self._refusal is None:
                self._commit()

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of `env_id`; its next step starts a new one."""
        if self._appending:
            super().stop_current_episode(env_id)
        else:
            self._check_open()
            super().stop_current_episode(env_id)
            self._commit()

    def _commit(self) -> None:
        if self._columns.records:
            self._or_refuse(self._store)

    def _store(self) -> None:
        columns = self._columns
        long = self._directory.count > max(self.journal_length, len(self) // 2)
        if long or columns.schema != self._schema or not self._directory.append(columns.records):
            self._write_state()
            return
        self._unsynced += len(columns.records)
        columns.records.clear()
        if self._unsynced >= self.sync_every or time.monotonic() - self._last_sync >= self.sync_seconds:
            self.sync()

    def close(self) -> None:
        """Write everything and release the directory's lock; the buffer is empty afterwards. May be called again.

        Raises:
            CheckpointError: If it cannot be written; the buffer is closed all the same, and its steps are in its files.
        """
        try:
            if self._refusal is None and os.getpid() == self._process:
                self._write_state()
        finally:
            if self._refusal != "is closed":
                self._refusal = "is closed"
                self._columns = Columns()  # type: ignore[assignment]  # no more records are needed
                self._first = self._next
                self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        raise TypeError(
            f"cannot set {[*changes]} of a transition: the files of {type(self).__name__} are written once; change "
            "it before it is appended, or have ReplayBuffer load what this buffer has saved"
        )

    def _set_memory(self, memory: Any) -> None:
        raise TypeError(
            f"memory: got {type(memory).__name__}, but what {type(self).__name__} holds is in its directory: "
            "memory.append adds to it, close() ends it, load replaces it by that of a saved buffer"
        )

    # State

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"{type(self).__name__} can neither be copied nor pickled, because its directory has one writer: open a "
            f"buffer in another directory with ancestor={self.dirname!r}"
        )

    def state_dict(self) -> dict[str, Any]:
        """The whole content, in the form of `ReplayBuffer.state_dict`, after a sync of the directory."""
        self.sync()
        return super().state_dict()

    def _load_pfrl(self, content: Any) -> None:
        other = self._in_memory()
        other._load_pfrl(content)
        self.load_state_dict(other.state_dict())

    def _in_memory(self) -> ReplayBuffer:
        return ReplayBuffer(self._capacity, self.num_steps)


class PersistentReplayBuffer(PersistentBuffer):
    """A `ReplayBuffer` in a directory: opening the directory again restores its content.

    Observations and extra columns are in memory-mapped files, so they may be larger than the memory. The actions and
    some 100 bytes a transition are in memory. Values have to be arrays of numbers, and environment ids integers,
    strings or tuples of these. `save` writes the content to one ordinary file, which `ReplayBuffer` can load, too;
    `load` replaces the content of the directory with that of such a file. Call `close` at the end, or use the buffer as
    a context manager: opening the directory is faster then.

    If the directory holds more than `capacity` items, the oldest are removed when it is opened, with a warning that
    counts them. `num_steps` has to be the same whenever the directory is opened.

    A directory has one writer; a second one is refused. The lock of a process that has ended is ignored. Old NFS
    servers do not support locks, so there two machines can write at the same time.

    Args:
        dirname: The directory; made if it does not exist.
        capacity: Largest number of items, beyond which the oldest are removed; None if unbounded.
        ancestor: Directory of another such buffer, whose content is copied to `dirname`, which has to be new then. The
            ancestor is only read.
        logger: Logger of the expected size of the directory and of losses after a crash; None is this module's.
        distributed: Give each process of a `torch.distributed` group a part of its own, `dirname/rank-<i>-of-<n>`; it
            samples only from this part. The group has to have the same size whenever the directory is opened. An
            `ancestor` is either divided in the same way, or the same for all processes.
        group: The group; None is the default group.
        num_steps: Transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        rng: Source of randomness; None is the global NumPy stream.
        sync_every: Steps and ends of episodes between syncs; if the machine fails, only those after the last sync are
            lost.
        sync_seconds: Seconds between syncs, checked whenever something is stored.
        journal_length: Steps and ends of episodes after which the whole state is written and a new journal begins. A
            larger buffer waits for half as many as it has items, but at most for a journal of one GiB.

    Raises:
        ValueError: If an argument is out of range.
        CheckpointError: If the directory is in use, not one of such a buffer, damaged, or its disk too small.
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
    """An `EpisodicReplayBuffer` in a directory; files, locks and saves work as in `PersistentReplayBuffer`.

    If the directory holds more than `capacity` transitions, the oldest episodes are removed when it is opened, with a
    warning that counts the transitions. Running episodes are not counted.

    Args:
        dirname: The directory; made if it does not exist.
        capacity: Largest number of transitions, beyond which the oldest episodes are removed; None if unbounded.
        ancestor: Directory of another such buffer, whose content is copied to `dirname`, which has to be new then. The
            ancestor is only read.
        logger: Logger of the expected size of the directory and of losses after a crash; None is this module's.
        distributed: Give each process of a `torch.distributed` group a part of its own, `dirname/rank-<i>-of-<n>`; it
            samples only from this part. The group has to have the same size whenever the directory is opened. An
            `ancestor` is either divided in the same way, or the same for all processes.
        group: The group; None is the default group.
        by_length: Draw episodes in proportion to their length, so that steps of long and short episodes are equally
            likely; otherwise all episodes are equally likely.
        rng: Source of randomness; None is the global NumPy stream.
        sync_every: Steps and ends of episodes between syncs; if the machine fails, only those after the last sync are
            lost.
        sync_seconds: Seconds between syncs, checked whenever something is stored.
        journal_length: Steps and ends of episodes after which the whole state is written and a new journal begins. A
            larger buffer waits for half as many as it has items, but at most for a journal of one GiB.

    Raises:
        ValueError: If an argument is out of range.
        CheckpointError: If the directory is in use, not one of such a buffer, damaged, or its disk too small.
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

    def _in_memory(self) -> ReplayBuffer:
        return EpisodicReplayBuffer(self._capacity)
