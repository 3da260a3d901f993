"""Replay buffers that live in a directory and outlast their process."""

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
    """What a buffer does to keep its content in a directory; to be mixed in before the buffer whose content it is.

    Every step is on its way to the disk when `append` returns: it survives the end of the process, however that ends.
    A lost machine costs what came after the last `sync`, which happens every `sync_every` steps, every `sync_seconds`
    (at the next step), at `close` and in `state_dict`.
    """

    def _open(self, dirname: Any, ancestor: Any, logger: Any, shard: str | None, every: tuple[int, float, int]) -> None:
        self.sync_every, self.sync_seconds, self.journal_length = every
        for name, least in (("sync_every", 1), ("sync_seconds", 0), ("journal_length", 1)):
            if not (value := getattr(self, name)) >= least:
                raise ValueError(f"{name}: got {value}, expected at least {least}")
        if not dirname:
            raise ValueError(f"dirname: got {dirname!r}, expected a directory")
        given = None if ancestor is None else os.fspath(ancestor)
        whole, source = diverted(os.path.abspath(dirname), given, shard)  # the process may go elsewhere later
        self.dirname = whole if shard is None else os.path.join(whole, shard)

        self.logger = _LOGGER if logger is None else logger
        self._appending = False
        self._wanted_capacity = self._capacity  # which a directory with more items gets at the end of its restoring
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
        """Go on with an empty store over these files."""
        self._files = files
        self._columns = columns = self._empty_columns(files)
        return columns

    def _descend(self, ancestor: str) -> None:
        if not self._directory.is_new:
            raise CheckpointError(self.dirname, f"holds a buffer already; leave {ancestor=} out to go on with it")
        self._directory.refuse_orphans()
        for attempt in range(_ATTEMPTS):
            try:
                self._directory.copy(ancestor)
                return self._restore()
            except BaseException as error:
                self._directory.clear()
                if attempt + 1 == _ATTEMPTS or not isinstance(error, CheckpointError) or error.path == ancestor:
                    raise  # else a writer of the ancestor may have used rows again while they were copied

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
        """Make the state of the first `count` records; returns how many of them are whole."""
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
            for row in rows:  # one at a time, so that no more than a step is in memory
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
        """As in the buffer in memory.

        Raises:
            ValueError: Also if something is no array of numbers, or the buffer is closed; nothing is stored.
            CheckpointError: If the disk is full or broken; nothing can be stored from then on.
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
        """Say that the running episode of `env_id` was cut off, so that the next step starts a new one."""
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
        """Write everything and let others write; the buffer is empty afterwards. May be called again.

        Raises:
            CheckpointError: If it cannot be written; it is closed all the same, and what it stored is in its files.
        """
        try:
            if self._refusal is None and os.getpid() == self._process:
                self._write_state()
        finally:
            if self._refusal != "is closed":
                self._refusal = "is closed"
                self._columns = Columns()  # type: ignore[assignment]  # nothing is recorded any more
                self._first = self._next
                self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        raise TypeError(
            f"cannot set {[*changes]} of a transition: the files of a {type(self).__name__} are written once; change "
            "it before it is appended, or have ReplayBuffer load what this buffer has saved"
        )

    def _set_memory(self, memory: Any) -> None:
        raise TypeError(
            f"memory: got a {type(memory).__name__}, but what a {type(self).__name__} holds is in its directory: "
            "memory.append adds to it, close() ends it, load replaces it by that of a saved buffer"
        )

    # State

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"a {type(self).__name__} can neither be copied nor pickled, because its directory has one writer: open a "
            f"buffer in another directory with ancestor={self.dirname!r}"
        )

    def state_dict(self) -> dict[str, Any]:
        """The whole content, as of the buffer in memory; it is on the disk of the directory, too."""
        self.sync()
        return super().state_dict()

    def _load_pfrl(self, content: Any) -> None:
        other = self._in_memory()
        other._load_pfrl(content)
        self.load_state_dict(other.state_dict())

    def _in_memory(self) -> ReplayBuffer:
        return ReplayBuffer(self._capacity, self.num_steps)


class PersistentReplayBuffer(PersistentBuffer):
    """A `ReplayBuffer` in a directory: opened again, it goes on where it was.

    Observations and further columns lie in files that are mapped into memory, so they may be larger than it; some 100
    bytes a transition and the actions lie in memory. What is no array of numbers is refused, and environments are named
    by integers, strings or tuples of such. `save` writes the content to one ordinary file, which `ReplayBuffer` loads,
    too; `load` replaces the content of the directory by that of such a file. Call `close` in the end, or use it as a
    context manager: opening is faster then.

    A directory has one writer; a second one is refused, and the lock of a process that is gone counts for nothing. Old
    NFS servers do not keep locks: there, nothing holds two machines apart.

    Args:
        dirname: The directory; made if it does not exist.
        capacity: Largest number of items, beyond which the oldest leave; None if unbounded. Of a directory that holds
            more the oldest leave at once, with a warning that counts them.
        ancestor: Directory of another such buffer whose content this one begins with; only read. `dirname` has to be
            new then.
        logger: Where it tells how large the directory will be, and what a crash has cost; None is this module's.
        distributed: Give each process of a `torch.distributed` group a part of its own, `dirname/rank-<i>-of-<n>`, from
            which alone it samples. The group has to be as large whenever the directory is opened. An `ancestor` is
            either divided in the same way, or the same for all.
        group: The group; None is the default group.
        num_steps: Transitions per item, as in `ReplayBuffer`; the same whenever the directory is opened.
        rng: Source of randomness; None is the global NumPy stream.
        sync_every: Steps and ends of episodes after which a lost machine costs nothing of what came before.
        sync_seconds: The same in seconds, looked at whenever something is stored.
        journal_length: Steps and ends of episodes after which the whole state is written and the journal of them begins
            anew; a larger buffer waits for half as many as it has items, but for no more than a GiB of them.

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
        self._open(dirname, ancestor, logger, shard_of(distributed, group), (sync_every, sync_seconds, journal_length))


class PersistentEpisodicReplayBuffer(PersistentBuffer, EpisodicReplayBuffer):
    """An `EpisodicReplayBuffer` in a directory; everything else is as in `PersistentReplayBuffer`.

    Args:
        dirname: The directory; made if it does not exist.
        capacity: Largest number of transitions, None if unbounded. Running episodes come on top of it. Of a directory
            that holds more the oldest episodes leave at once, with a warning that counts the transitions.
        ancestor: Directory of another such buffer whose content this one begins with.
        logger: Where it tells how large the directory will be, and what a crash has cost.
        distributed: Give each process of a `torch.distributed` group a part of its own.
        group: The group; None is the default group.
        by_length: Draw episodes in proportion to their length, as in `EpisodicReplayBuffer`.
        rng: Source of randomness; None is the global NumPy stream.
        sync_every: Steps and ends of episodes after which a lost machine costs nothing of what came before.
        sync_seconds: The same in seconds.
        journal_length: Steps and ends of episodes after which the whole state is written.

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
        self._open(dirname, ancestor, logger, shard_of(distributed, group), (sync_every, sync_seconds, journal_length))

    def close(self) -> None:
        super().close()
        self._episodes = RandomAccessQueue()
        self._first_episode = self._next_episode

    def _in_memory(self) -> ReplayBuffer:
        return EpisodicReplayBuffer(self._capacity)
