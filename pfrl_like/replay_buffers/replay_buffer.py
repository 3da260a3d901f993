"""Experience replay (Lin 1992, doi:10.1007/BF00992699; Mnih et al. 2015, doi:10.1038/nature14236), uniform, n-step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import NDArray

from pfrl_like import replay_buffer
from pfrl_like.batch import Batch
from pfrl_like.columns import ENDED, Columns, Indices, dump, restore, rows_of
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import read_arrays, write_arrays
from pfrl_like.utils.random import RandomSource, sample_n_k

_WHOLE_EPISODE = -1


class ReplayBuffer(replay_buffer.AbstractReplayBuffer):
    """A store of the last `capacity` transitions, sampled uniformly.

    An item is a transition and up to `num_steps` - 1 transitions after it in its episode; it can be sampled once all of
    them are there or the episode has ended. Items have sequence numbers that grow by one and leave in the same order.

    Args:
        capacity: Largest number of items; the oldest leave first. None: unbounded.
        num_steps: Transitions per item, for n-step returns.
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: If `capacity` or `num_steps` is less than 1.
    """

    def __init__(self, capacity: int | None = None, num_steps: int = 1, *, rng: RandomSource = None) -> None:
        if capacity is not None and capacity < 1:
            raise ValueError(f"capacity: got {capacity}, expected a positive number of transitions, or None")
        if num_steps < 1:
            raise ValueError(f"num_steps: got {num_steps}, expected at least 1")
        self._capacity = capacity
        self.num_steps = num_steps
        self.rng = rng
        self._horizon = num_steps  # steps after which an item is complete
        self._columns = Columns()
        self._first = self._next = 0  # sequence numbers: of the oldest item, of the item to come
        self._origin = 0  # sequence number of the item in slot 0 of the ring below
        self._ring: Indices = np.zeros(1024, np.int64)  # row of each item
        self._restored: set[Any] = set()  # environments whose running episode came from a file

    @property
    def capacity(self) -> int | None:
        """Largest number of items, None if unbounded."""
        return self._capacity

    def __len__(self) -> int:
        return self._next - self._first

    # ------------------------------------------------------------------------------------------------------- append

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
        """Store one transition; errors call `state` and `next_state` obs and next_obs."""
        if next_action is not None:
            kwargs["next_action"] = next_action
        extra = {name: [value] for name, value in kwargs.items()}
        self.append_batch([state], [action], [reward], [next_state], [is_state_terminal], [False], [env_id], **extra)

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

        Observations come as a list of k or stacked (nested: every leaf stacked, or a list of k nests); a tuple of length
        k counts as a list, unless the observations themselves are tuples.

        Raises:
            ValueError: If something does not fit the first transition; nothing is stored.
        """
        if self._restored:
            self._end_if_interrupted(obs, env_ids, len(reward))
        if len(reward) != 1:
            self._append_many(obs, action, reward, next_obs, terminated, truncated, env_ids, extra)
            return
        columns = self._columns
        env_id = 0 if env_ids is None else env_ids[0]
        terminal = bool(terminated[0])
        row = columns.append(
            obs[0] if type(obs) is list or type(obs) is ndarray else rows_of(obs, 1)[0],
            action[0] if type(action) is list or type(action) is ndarray else rows_of(action, 1)[0],
            reward[0],
            next_obs[0] if type(next_obs) is list or type(next_obs) is ndarray else rows_of(next_obs, 1)[0],
            terminal,
            env_id,
            {name: rows_of(values, 1)[0] for name, values in extra.items()} if extra else extra,
        )
        if self._horizon != 1:
            self._wait(env_id, row)
        else:
            slot = self._next - self._origin
            if self._next - self._first == len(self._ring):
                self._grow_ring(1)
                slot = self._next - self._origin
            self._ring[slot % len(self._ring)] = row
            self._next += 1
            if self.prioritized:
                self._items_added(self._next - 1, 1)
            if self._next - self._first == self._overfull:
                columns.release(self._ring.item((self._first - self._origin) % len(self._ring)))
                self._first += 1
                if self.prioritized:
                    self._items_dropped(self._first - 1, 1)
        if terminal or truncated[0]:
            self.stop_current_episode(env_id)
