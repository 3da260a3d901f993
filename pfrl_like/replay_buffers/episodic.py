"""Replay of episodes or parts of episodes, for recurrent networks (Hausknecht and Stone 2015, arXiv:1507.06527)."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Batch
from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.columns import Columns, Indices, packed
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.replay_buffers.memory import EpisodicMemory, StoredItem, drop_weight
from pfrl_like.replay_buffers.replay_buffer import ReplayBuffer
from pfrl_like.replay_buffers.saved import Arrays, sequence_number
from pfrl_like.utils.random import RandomSource, check_held, sample_n_k


def subsequences(
    lengths: Indices, max_len: int | None, has_state: NDArray[np.bool_] | None, rng: RandomSource = None
) -> tuple[Indices, Indices]:
    """Select a random part of at most `max_len` consecutive steps from each of several episodes.

    In an episode of L > `max_len` steps, a part starts at one of the steps 0 to L - `max_len`. All starts are equally
    likely. If `has_state` is given, a part starts only at a step with a recurrent state, or at step 0. If step L -
    `max_len` has no recurrent state, the first later step with a recurrent state is also a possible start. The part
    from there to the end of the episode has fewer than `max_len` steps.

    Args:
        lengths: Lengths of the episodes, shape [B].
        max_len: Maximum length of a part in steps. If None, whole episodes are used.
        has_state: True for each step with a recurrent state, all episodes concatenated, shape [sum(lengths)].
        rng: NumPy generator; None uses the global NumPy stream.

    Returns:
        First step of each part, counted from the beginning of its episode, [B], and length of each part, [B].
    """
    if max_len is None or not len(lengths) or max_len >= lengths.max():
        return np.zeros(len(lengths), np.int64), lengths
    latest = np.maximum(lengths - max_len, 0)
    source = np.random if rng is None else rng
    draw = source.random(len(lengths))
    whole = (draw * (latest + 1)).astype(np.int64)
    starts = whole if has_state is None else _starts_with_state(draw, lengths, latest, has_state)
    return starts, np.minimum(lengths - starts, max_len)


def _starts_with_state(draw: NDArray[Any], lengths: Indices, latest: Indices, has_state: NDArray[np.bool_]) -> Indices:
    begins = np.cumsum(lengths) - lengths
    step = np.arange(len(has_state)) - np.repeat(begins, lengths)
    has_state = has_state | (step == 0)
    end = np.repeat(latest, lengths)
    covering_end = np.where(has_state & (step >= end), step, np.repeat(lengths, lengths))
    first_covering_end = np.minimum.reduceat(covering_end, begins)
    allowed = has_state & (step <= np.repeat(first_covering_end, lengths))
    counts = np.add.reduceat(allowed, begins, dtype=np.int64)
    position = np.cumsum(counts) - counts + (draw * counts).astype(np.int64)
    starts: Indices = step[np.flatnonzero(allowed)[position]]
    return starts


class EpisodicReplayBuffer(ReplayBuffer, AbstractEpisodicReplayBuffer):
    """Replay buffer of the last finished episodes, with at most `capacity` transitions in total.

    An episode can be sampled only after it has ended. Until then its transitions are not counted. Whole episodes are
    removed, the oldest first. An episode longer than `capacity` is discarded. Items are transitions.

    Args:
        capacity: Maximum number of transitions. If it is exceeded, the oldest episodes are removed. None if unbounded.
        by_length: True to sample episodes in proportion to their length, so that steps of long and short episodes are
            equally likely. False to sample all episodes with equal probability.
        rng: NumPy generator; None uses the global NumPy stream.

    Raises:
        ValueError: If `capacity` is less than 1.
    """

    _kind = "episodic replay buffer"
    _episodes_view = EpisodicMemory

    def __init__(self, capacity: int | None = None, *, by_length: bool = False, rng: RandomSource = None) -> None:
        super().__init__(capacity, rng=rng)
        self.by_length = by_length
        self._horizon = math.inf
        self._first_episode = self._next_episode = 0  # sequence numbers of episodes
        self._episodes: RandomAccessQueue[tuple[int, int]] = RandomAccessQueue()  # first item, length

    @property
    def n_episodes(self) -> int:
        """Number of finished episodes that can be sampled."""
        return self._next_episode - self._first_episode

    @property
    def episodic_memory(self) -> Any:
        """The episodes, oldest first, as lists of transition dicts. Changes to the dicts are stored.

        `EpisodicMemory.append` stores an episode. Assigning None frees the content, as for `memory`.

        Raises:
            TypeError: If the assigned value is not None.
        """
        return self._episodes_view(self) if self._user_memory is None else None

    @episodic_memory.setter
    def episodic_memory(self, memory: Any) -> None:
        self._set_memory(memory)

    # Storing

    def _add_items(self, rows: Sequence[int] | Indices) -> None:
        self._episodes.append((self._next, len(rows)))
        self._next_episode += 1
        super()._add_items(rows)

    def _evict(self) -> None:
        items = episodes = 0
        while self._capacity is not None and len(self) - items > self._capacity:
            items += self._episodes.popleft()[1]
            episodes += 1
        if episodes:
            self._drop_items(items)
            self._drop_episodes(episodes)

    def _drop_episodes(self, count: int) -> None:
        """Subtract the oldest `count` episodes from `n_episodes`. The caller has removed their items."""
        self._first_episode += count

    # Sampling

    def _draw_episodes(self, n: int) -> tuple[Indices, NDArray[np.float64] | None]:
        """Draw n distinct episodes. Return their sequence numbers, and weights or None. The caller checks n."""
        if not self.by_length:
            return sample_n_k(self.n_episodes, n, self._rng) + self._first_episode, None
        lengths = np.fromiter((length for _, length in self._episodes), np.float64, self.n_episodes)
        source: Any = np.random if self._rng is None else self._rng
        drawn: Indices = source.choice(self.n_episodes, n, replace=False, p=lengths / lengths.sum())
        return drawn + self._first_episode, None

    def _episode(self, index: int) -> StoredItem:
        """Return the transitions of the episode with this sequence number."""
        first, length = self._episodes[index - self._first_episode]
        return self._build_lists(self._rows(np.arange(first, first + length)), [length])[0]

    def sample_episodes(self, n_episodes: int, max_len: int | None = None) -> Any:
        """Draw distinct episodes as lists of transition dicts. Return a random part of at most `max_len` steps of each.

        If some transitions contain a `recurrent_state`, a part starts only at such a transition or at the first step of
        the episode; see `subsequences`.

        Returns:
            The episodes, or the pair (episodes, weights) if this buffer is prioritised and computes weights.

        Raises:
            ValueError: If `n_episodes` is larger than the number of episodes, or `max_len` is less than 1.
        """
        _, weight, first, lengths = self._draw_parts(n_episodes, max_len)
        episodes = self._build_lists(self._rows(_ranges(first, lengths)), lengths.tolist())
        return episodes if weight is None else (episodes, weight)

    def sample_sequences(
        self,
        n: int,
        max_len: int | None = None,
        gamma: float = 1.0,
        device: torch.device | str = "cpu",
        *,
        next_actions: bool = False,
        continuation: float = 0,
    ) -> Batch:
        """Draw the same parts of episodes as `sample_episodes`. Return packed sequences, the longest sequence first.

        The rows of the batch are ordered by time step: first step 0 of all sequences, then step 1, and so on.

        `Batch.index` contains, for each sequence, the sequence number of its episode. `Batch.weight` repeats the weight
        of a sequence for each of its rows.

        Raises:
            ValueError: If `n` is larger than the number of episodes, or `max_len` is less than 1.
        """
        index, weight, first, lengths = self._draw_parts(n, max_len)
        order = np.argsort(-lengths, kind="stable")
        index, first, lengths = index[order], first[order], lengths[order]
        time, sequence = packed(lengths)
        rows = self._rows(first[sequence] + time)
        row_weight = None if weight is None else weight[order][sequence]
        needs: dict[str, Any] = {"next_actions": next_actions, "continuation": continuation}
        return self._columns.batch(rows, index, row_weight, 1, gamma, device, lengths, **needs)

    def _draw_parts(self, n: int, max_len: int | None) -> tuple[Indices, NDArray[np.float64] | None, Indices, Indices]:
        """Draw n episodes and a part of each.

        Return the sequence numbers of the episodes, their weights, and the first item and the length of each part.
        """
        check_held("n_episodes", n, self.n_episodes, "episodes")
        if max_len is not None and max_len < 1:
            raise ValueError(f"max_len: got {max_len}, expected an integer >= 1 or None")
        index, weight = self._draw_episodes(n)
        bounds = [self._episodes[i] for i in (index - self._first_episode).tolist()]
        first, lengths = np.array(bounds, np.int64).reshape(-1, 2).T
        has_state = None
        states = self._columns.extras.get("recurrent_state")
        if states is not None and states.field is not None:
            has_state = states.present(self._rows(_ranges(first, lengths)))
        begin, part = subsequences(lengths, max_len, has_state, self._rng)
        return index, weight, first + begin, part

    # State

    def _state(self, dump: Callable[[Columns, Indices], tuple[dict[str, Any], dict[str, Any]]]) -> dict[str, Any]:
        state = super()._state(dump)
        state["header"]["first_episode"] = self._first_episode
        state["arrays"]["episode_lengths"] = np.array([length for _, length in self._episodes], np.int64)
        return state

    def _load_order(self, header: dict[str, Any], arrays: Arrays, extra: Arrays, first: int, n: int) -> None:
        lengths, first_episode = arrays["episode_lengths"], sequence_number(header, "first_episode")
        if lengths.ndim != 1 or lengths.dtype != np.int64 or (lengths < 1).any() or lengths.sum() != n:
            raise ValueError("the episode lengths do not match the number of items")
        self._load_extra_state(header["own"], extra, first_episode, len(lengths))
        starts = first + np.cumsum(lengths) - lengths
        self._episodes = RandomAccessQueue(zip(starts.tolist(), lengths.tolist(), strict=True))
        self._first_episode, self._next_episode = first_episode, first_episode + len(lengths)

    def _append_pfrl(self, content: Any) -> None:
        prioritized = False
        if isinstance(content, tuple):
            prioritized = hasattr(content[1], "priority_sums")
            episodes = content[1].data if prioritized else content[1].items()
        else:  # PFRL before 0.3 saved only transitions
            episodes = [[step for item in content for step in (item if isinstance(item, list) else [item])]]
        for episode in episodes:
            for step in episode:
                self.append(**drop_weight(step), env_id=0)
            self.stop_current_episode(0)
        if prioritized and self.prioritized:
            self._load_pfrl_priorities(content[1], self._first_episode, self.n_episodes)

    def _clear(self) -> None:
        super()._clear()
        self._episodes = RandomAccessQueue()
        self._drop_episodes(self.n_episodes)


def _ranges(first: Indices, lengths: Indices) -> Indices:
    """Return the concatenated ranges first[i], ..., first[i] + lengths[i] - 1 for all i."""
    skipped = np.cumsum(lengths) - lengths
    ranges: Indices = np.arange(lengths.sum()) + np.repeat(first - skipped, lengths)
    return ranges
