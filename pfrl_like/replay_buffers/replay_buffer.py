"""Experience replay (Lin 1992, doi:10.1007/BF00992699; Mnih et al. 2015, doi:10.1038/nature14236), one- and n-step."""

import numbers
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import NDArray

from pfrl_like.batch import Batch
from pfrl_like.columns import ENDED, Columns, Indices, edit, rows_of, stacks
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers.chunks import append_chunk
from pfrl_like.replay_buffers.memory import WEIGHT, Memory, StoredItem, StoredTransition, TransitionCache, UserMemory
from pfrl_like.replay_buffers.saved import SavedBuffer
from pfrl_like.utils.checks import check_counts, check_transition
from pfrl_like.utils.random import RandomSource, check_held, check_rng, sample_n_k, size_of_sample


class ColumnSource(Protocol):
    """A dataset whose transitions a buffer can store."""

    def to_columns(self) -> tuple[Columns, list[Indices]]:
        """Return new columns, owned by the caller, and the rows of their steps, episode by episode."""


class ReplayBuffer(SavedBuffer):
    """Replay buffer of the last `capacity` transitions, sampled uniformly.

    An item is a transition with up to `num_steps` - 1 transitions after it. An item can be sampled as soon as its last
    transition is stored or its episode has ended. Items have consecutive sequence numbers, and the oldest items are
    removed first.

    `memory` and `sample` return PFRL's lists of transition dicts. Assigning to a key of a transition changes the stored
    value (see `StoredTransition`), also in later checkpoints.

    A buffer is not thread-safe: if different threads append and sample, they must share a lock.

    Args:
        capacity: Maximum number of items. If it is exceeded, the oldest items are removed. None if unbounded.
        num_steps: Number of transitions per item, for n-step returns (Sutton and Barto 2018, eq. 7.1).
        rng: NumPy generator; None uses the global NumPy stream.

    Raises:
        ValueError: If `capacity` or `num_steps` is less than 1 or not an integer.
        TypeError: If `rng` is not a NumPy generator.
    """

    tells_future = True
    stacks_frames = True
    _user_memory: UserMemory | None = None  # the user's container, which replaces the columns
    _view = Memory  # class of the view that `memory` returns

    def __init__(self, capacity: int | None = None, num_steps: int = 1, *, rng: RandomSource = None) -> None:
        if capacity is not None:
            if not (isinstance(capacity, numbers.Real) and capacity >= 1 and capacity % 1 == 0):
                raise ValueError(f"capacity: got {capacity!r}, expected a whole number of at least 1, or None")
            capacity = int(capacity)
        if not (isinstance(num_steps, int | np.integer) and num_steps >= 1):
            raise ValueError(f"num_steps: got {num_steps!r}, expected an integer >= 1")
        check_rng(rng)
        self._capacity: int | None = capacity
        self.num_steps, self._rng = num_steps, rng
        self._horizon: float = num_steps  # number of stored transitions after which an item can be sampled
        self._columns = Columns()
        self._first = self._next = 0  # sequence numbers of the oldest item and of the next new item
        self._ring: Indices = np.zeros(1024, np.int64)  # rows of the items: slot i % length has the row of item i
        self._resumed: set[Any] = set()  # environments whose running episode was loaded and has no new step yet
        self._increments: dict[str, str] = {}  # see SavedBuffer
        self._transition_cache = TransitionCache()

    @classmethod
    def from_dataset(cls, dataset: ColumnSource, *args: Any, **kwargs: Any) -> Self:
        """Return a buffer that contains the transitions of a dataset.

        Arrays of observations are not copied before the first append. A persistent buffer copies them immediately.

        Args:
            dataset: The dataset (`MDPDataset`); it is not changed.
            args: Positional arguments of the constructor.
            kwargs: Keyword arguments of the constructor.

        Raises:
            TypeError: If `dataset` is not a dataset.
        """
        if not hasattr(dataset, "to_columns"):
            raise TypeError(f"dataset: got {type(dataset).__name__}, expected an MDPDataset")
        buffer = cls(*args, **kwargs)
        buffer._fill_from(*dataset.to_columns())
        return buffer

    def _fill_from(self, columns: Columns, episodes: list[Indices]) -> None:
        self._columns = columns
        rows = np.concatenate(episodes) if episodes else np.zeros(0, np.int64)
        if self.num_steps > 1:
            columns.find_windows(rows, self.num_steps)
        for part in episodes if self._horizon == np.inf else [rows]:
            self._add_items(part)

    def stored_steps(self) -> tuple[Columns, Indices]:
        """Return the columns (not a copy) and the rows of all stored steps, in the order of the items.

        Steps whose items or episodes are not complete cannot be sampled yet. These steps come last.
        """
        if self._user_memory:
            return self._columns_of(self._user_memory).stored_steps()
        waiting = [row for run in self._columns.running.values() for row in run.waiting]
        items = self._rows(np.arange(self._first, self._next))
        return self._columns, np.concatenate([items, np.array(waiting, np.int64)])

    @property
    def capacity(self) -> int | None:
        """Maximum number of items; None if unbounded."""
        return self._capacity

    @property
    def memory(self) -> Any:
        """The items, oldest first, as lists of transition dicts. Changes to the dicts are stored; see `Memory`.

        Assigning None frees the content. Nothing can be stored until a container is assigned or a saved buffer is
        loaded. Assigning a container replaces the columns. The buffer then fills the container as PFRL does, with lists
        of ordinary dicts. A container is slower, and every save writes its whole content.

        Raises:
            TypeError: If the assigned object is not a container, or if this class does not support containers.
        """
        return self._view(self) if self._user_memory is None else self._user_memory.container

    @memory.setter
    def memory(self, memory: Any) -> None:
        self._set_memory(memory)

    def _set_memory(self, memory: Any) -> None:
        if isinstance(memory, Memory) and memory.buffer is self:
            self._user_memory = None
            return
        if memory is not None and (self.prioritized or self._horizon == np.inf):
            reason = f"{type(self).__name__} does not support containers; memory.append adds items"
            raise TypeError(f"memory: got {type(memory).__name__}, expected None, which frees the content: {reason}")
        container = UserMemory(memory, self.num_steps, self._capacity)
        self._user_memory = None
        self._clear()
        self._user_memory = container

    @property
    def nbytes(self) -> int:
        """Number of bytes that the buffer uses."""
        return self._columns.nbytes + self._ring.nbytes

    def __len__(self) -> int:
        return self._next - self._first if self._user_memory is None else len(self._user_memory)

    # Storing

    def append(
        self,
        state: Any,
        action: Any,
        reward: float,
        next_state: Any = None,
        next_action: Any = None,
        is_state_terminal: bool = False,
        env_id: Any = 0,
        **kwargs: Any,
    ) -> None:
        """Store one transition. Error messages call `state` "obs" and `next_state` "next_obs".

        If an error is raised, nothing is stored.

        Raises:
            NonFiniteError: If a number is NaN or infinite, or the reward is too large for float32.
            ValueError: If a value does not have the shape and type of the first transition.
            TypeError: If the reward is not a number.
        """
        check_transition(state, action, next_state)
        extra = {name: [value] for name, value in kwargs.items()}
        if next_action is not None:
            extra["next_action"] = [next_action]
        self._append_batch([state], [action], [reward], [next_state], [is_state_terminal], [False], [env_id], **extra)

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

        Observations are a list, a tuple or a stacked array of length k. Nested observations may also be one nested
        structure of stacked arrays. Unlike `append`, this method does not check observations for NaN, because the
        runners check them. If an error is raised, nothing is stored.

        Raises:
            NonFiniteError: If a reward is NaN, infinite or too large for float32.
            ValueError: If the columns have different lengths, or a value does not have the shape and type of the first
                transition.
        """
        if self._user_memory is not None:
            steps = {"state": obs, "action": action, "reward": reward, "next_state": next_obs, **extra}
            self._user_memory.append_batch(steps, terminated, truncated, env_ids)
            return
        if self._resumed:
            self._end_interrupted(obs, env_ids, len(reward))
        if len(reward) != 1 or len(terminated) != 1:
            steps = {"obs": obs, "action": action, "reward": reward, "next_obs": next_obs}
            self._append_many(steps, terminated, truncated, env_ids, extra)
            return
        columns, env_id, terminal = self._columns, 0 if env_ids is None else env_ids[0], bool(terminated[0])
        row = columns.append(
            obs[0] if type(obs) is ndarray or type(obs) is list else rows_of(obs, 1, "obs")[0],
            action[0] if type(action) is ndarray or type(action) is list else rows_of(action, 1, "action")[0],
            reward[0],
            next_obs[0] if type(next_obs) is ndarray or type(next_obs) is list else rows_of(next_obs, 1, "next_obs")[0],
            terminal,
            env_id,
            {name: rows_of(values, 1, name)[0] for name, values in extra.items()} if extra else extra,
        )
        if self._horizon != 1:
            self._queue_step(env_id, row)
        else:  # same as _add_items([row]), inlined for speed
            item = self._next
            if item - self._first == len(self._ring):
                self._grow_ring(1)
            self._ring[item % len(self._ring)] = row
            self._next = item + 1
            if self.prioritized:
                self._items_added(item, 1)
            if self._capacity is not None and self._next - self._first > self._capacity:
                columns.release(self._ring.item(self._first % len(self._ring)))
                self._first += 1
                if self.prioritized:
                    self._items_dropped(self._first - 1, 1)
        if terminal or truncated[0]:
            self.stop_current_episode(env_id)

    def _append_many(
        self, steps: dict[str, Any], terminated: Any, truncated: Any, env_ids: Any, extra: Mapping[str, Any]
    ) -> None:
        columns = {**steps, "terminated": terminated, "truncated": truncated}
        lengths = {name: len(column) for name, column in columns.items() if isinstance(column, list | ndarray)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"expected columns with one entry per environment, got the lengths {lengths}")
        reward = steps["reward"]
        ids = range(len(reward)) if env_ids is None else env_ids
        if len(ids) != len(reward):
            raise ValueError(f"env_ids: got {len(ids)} ids for {len(reward)} rewards, expected one id per reward")
        if not len(ids):
            return
        terminal, cut = np.asarray(terminated, np.bool_), np.asarray(truncated, np.bool_)
        if not terminal.shape == cut.shape == (len(ids),):
            raise ValueError(f"terminated {terminal.shape}, truncated {cut.shape}, expected ({len(ids)},) like reward")
        rows = self._columns.append_many(**steps, terminal=terminal, env_ids=ids, extra=extra)
        if self._horizon == 1:
            self._add_items(rows)
        for env_id, row, ended in zip(ids, rows.tolist(), (terminal | cut).tolist(), strict=True):
            if self._horizon != 1:
                self._queue_step(env_id, row)
            if ended:
                self.stop_current_episode(env_id)

    def stop_current_episode(self, env_id: Any = 0) -> None:
        """End the running episode of the environment `env_id`. Its next step starts a new episode."""
        if self._user_memory is not None:
            self._user_memory.stop(env_id)
        run = self._columns.running.get(env_id)
        if run is not None:
            self._columns.end(env_id)
            if run.waiting:
                if self.num_steps > 1:
                    self._columns.set_windows(run.waiting, run.waiting[-1], np.arange(len(run.waiting), 0, -1))
                self._add_items(run.waiting)

    append_chunk = append_chunk
    #: The methods whose result `append_chunk` reproduces. A subclass that overrides them gets one call for each step.
    _chunked_methods: tuple[Any, Any] = append_batch, stop_current_episode

    def _store_step(self, step: Mapping[str, Any], env_id: Any, cut: bool) -> None:
        """Store a transition, a dict of the arguments of `append`, without calling a subclass's `append`."""
        ReplayBuffer.append(self, **step, env_id=env_id)
        if cut:
            self.stop_current_episode(env_id)

    def _queue_step(self, env_id: Any, row: int) -> None:
        waiting = self._columns.running[env_id].waiting
        waiting.append(row)
        if len(waiting) == self._horizon:
            first = waiting.pop(0)
            self._columns.set_windows(first, row, self.num_steps)
            self._add_items([first])

    def _add_items(self, rows: Sequence[int] | Indices) -> None:
        first, count = self._next, len(rows)
        if first + count - self._first > len(self._ring):
            self._grow_ring(count)
        self._ring[np.arange(first, first + count) % len(self._ring)] = rows
        self._next += count
        if self.prioritized:
            self._items_added(first, count)
        self._evict()

    def _evict(self) -> None:
        if self._capacity is not None and len(self) > self._capacity:
            self._drop_items(len(self) - self._capacity)

    def _drop_items(self, count: int) -> None:
        for row in self._rows(np.arange(self._first, self._first + count)).tolist():
            self._columns.release(row)
        self._first += count
        if self.prioritized:
            self._items_dropped(self._first - count, count)

    def _grow_ring(self, count: int) -> None:
        live = np.arange(self._first, self._next)
        rows = self._rows(live)
        needed = len(live) + count
        self._ring = np.zeros(max(needed, min(2 * needed, (self._capacity or 2 * needed) + 1)), np.int64)
        self._ring[live % len(self._ring)] = rows

    def _end_interrupted(self, obs: Any, env_ids: Sequence[Any] | None, count: int) -> None:
        """End each loaded episode whose newest observation differs from the new observation: it does not continue."""
        for env_id, new in zip(range(count) if env_ids is None else env_ids, rows_of(obs, count, "obs"), strict=True):
            if env_id in self._resumed:
                if not self._columns.continues(env_id, new):
                    self.stop_current_episode(env_id)
                self._resumed.discard(env_id)

    # Hooks for prioritised buffers, called only if `prioritized` is True

    def _items_added(self, first: int, count: int) -> None:
        """Hook called after items `first` to `first + count - 1` were added."""

    def _items_dropped(self, first: int, count: int) -> None:
        """Hook called after items `first` to `first + count - 1`, the oldest items, were removed."""

    # Sampling

    def _draw(self, n: int) -> tuple[Indices, NDArray[np.float64] | None]:
        """Draw n distinct items. Return their numbers, and importance weights or None. The caller checks n."""
        return sample_n_k(len(self), n, self._rng) + self._first, None

    def sample(self, num_experiences: int | None = None, *, n: int | None = None) -> Any:  # type: ignore[override]
        """Draw distinct items. Each item is a list of one to `num_steps` transition dicts.

        Args:
            num_experiences: Number of items.
            n: Another name of `num_experiences`; PFRL's episodic and prioritised buffers call it n.

        Raises:
            ValueError: If the number is larger than the buffer.
            TypeError: If not exactly one of the arguments is passed.
        """
        number = size_of_sample(num_experiences, n)
        if self._user_memory is not None:
            return self._user_memory.sample(number, self._rng)
        check_held("num_experiences", number, len(self), "items")
        index, weight = self._draw(number)
        items = self._items(index)
        if weight is not None:
            for item, number in zip(items, weight.tolist(), strict=True):
                item[0][WEIGHT] = number
        return items

    def sample_batch(
        self,
        n: int,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
        continuation: float = 0,
        n_frames: int = 1,
    ) -> Batch:
        """Draw the same items as `sample`, and return them as tensors.

        If `n_frames` > 1, images (arrays with three axes) are stacked along the first axis, the newest image last.
        Images before the beginning of an episode, and images that the buffer has removed, are zeros.

        Raises:
            ValueError: If `n` is larger than the buffer, if `n` is 0 and nothing was ever stored, or if `n_frames` is
                less than 1.
            TypeError: If `n_frames` is not an integer, or if `memory` is a container and `n_frames` or `continuation`
                does not have its default value.
        """
        if self._user_memory is not None:
            if continuation or n_frames != 1:
                reason = f"supports neither {continuation=} nor {n_frames=}: do not assign to memory"
                raise TypeError(f"memory is {type(self._user_memory.container).__name__}, which {reason}")
            return AbstractReplayBuffer.sample_batch(self, n, gamma, device)
        stacked = None
        if n_frames != 1:
            check_counts(n_frames=n_frames)
            stacked = stacks(self._columns, n_frames)
        size = self._next - self._first
        if not 0 <= n <= size:  # repeats the condition of `check_held`, because a call is slow
            check_held("n", n, size, "items")
        weight = None
        if self.prioritized:
            index, weight = self._draw(n)
        else:  # same as _draw, inlined for speed
            index = sample_n_k(size, n, self._rng)
            if self._first:
                index += self._first
        # take(mode="wrap") subtracts the length until the index is in range. Large indices are reduced first.
        length = len(self._ring)
        slot = index if self._first < 16 * length else index - self._first // length * length
        rows = self._ring.take(slot, None, None, "wrap")
        return self._columns.batch(
            rows, index, weight, self.num_steps, gamma, device,
            next_actions=next_actions, continuation=continuation, stacked=stacked,
        )  # fmt: skip

    def _rows(self, index: Indices) -> Indices:
        """Return the rows of the items with these sequence numbers."""
        return self._ring[index % len(self._ring)]

    def _items(self, index: Indices) -> list[StoredItem]:
        """Return the items with these sequence numbers, in PFRL's form."""
        steps = [self._rows(index)]
        for _ in range(1, self.num_steps):
            steps.append(self._columns.successor.take(steps[-1]))
        windows = np.stack(steps, axis=1)
        exists = windows > ENDED
        return self._build_lists(windows[exists], exists.sum(axis=1).tolist())

    def _build_lists(self, rows: Indices, lengths: Sequence[int]) -> list[StoredItem]:
        """Return the transitions in these rows, divided in order into lists of these lengths."""
        return self._transition_cache.build_lists(self._columns, rows, lengths, self._edit)

    def _edit(self, transition: StoredTransition, changes: dict[str, Any]) -> dict[str, Any]:
        """Change a stored transition. Return the stored values of the changed keys.

        Raises:
            ValueError: If a key is not a column of the buffer, or a value does not match its column. Nothing is
                changed.
            LookupError: If the transition is no longer stored.
        """
        if self._user_memory is not None or not transition.is_in(self._columns):
            raise LookupError(f"cannot set {[*changes]}: this transition was removed from the replay buffer")
        edit(self._columns, transition.row, changes, self.num_steps)
        stored = self._columns.transitions(np.array([transition.row]))[0]
        return {name: stored[name] for name in changes}

    def _columns_of(self, container: UserMemory) -> "ReplayBuffer":
        """Return an ordinary buffer, with columns, that contains the content of the user's container.

        Raises:
            TypeError: If items may have several steps, because the episodes of such items are unknown.
        """
        if self.num_steps > 1:
            reason = f"items of up to {self.num_steps} steps, which cannot be saved or converted to a dataset"
            raise TypeError(f"memory: {type(container.container).__name__} contains {reason}: use num_steps=1")
        buffer = ReplayBuffer(self._capacity, rng=self._rng)
        buffer.memory.extend(container.container)
        return buffer
