"""Prioritised replay of whole episodes."""

import math
from collections.abc import Callable
from typing import Any

from pfrl_like.collections.prioritized import Floats, Index, check_uniform_ratio
from pfrl_like.replay_buffers.episodic import EpisodicReplayBuffer
from pfrl_like.replay_buffers.memory import PrioritizedEpisodicMemory
from pfrl_like.replay_buffers.prioritized import Normalization, PriorityWeightError
from pfrl_like.utils.random import RandomSource


class PrioritizedEpisodicReplayBuffer(PriorityWeightError, EpisodicReplayBuffer):
    """Replay buffer whose episodes are sampled in proportion to their priorities. Each episode has one priority.

    `sample_episodes` and `sample_sequences` sample by priority. `sample` and `sample_batch` sample transitions
    uniformly. `update_errors` and `update_priorities` expect one error per episode or sequence. `PriorityWeightError`
    documents the equations of priorities and weights. In these equations N is the number of episodes.

    Args:
        capacity: Maximum number of transitions. If it is exceeded, the oldest episodes are removed. None if unbounded.
        alpha: Exponent of the priorities, >= 0; 0 samples uniformly.
        beta0: Initial exponent of the importance weights, from 0 to 1.
        betasteps: Number of samples over which the exponent of the weights grows to 1. If None, it stays `beta0`; if
            negative, it stays `beta0`, too, after a warning.
        eps: Number added to the absolute errors, >= 0. If it is positive, items with error 0 can be sampled again.
        normalize_by_max: True or "batch" divides the weights by the maximum weight in the minibatch. "memory" divides
            them by the maximum weight over all stored items. False does not divide them.
        default_priority_func: Function that returns the priority (not the error) of a new episode, given the list of
            its transition dicts. If None, a new episode has the maximum priority so far.
        uniform_ratio: Probability that a draw is uniform and ignores the priorities, from 0 to 1.
        wait_priority_after_sampling: True to raise an error if a sample is drawn before the errors of the last sample
            are written back.
        return_sample_weights: True to compute importance weights. `sample_episodes` then returns (episodes, weights),
            and `sample_sequences` stores in `Batch.weight`, for each row, the weight of the row's sequence.
        error_min: Lower bound that absolute errors are clipped to. If None, there is no bound.
        error_max: Upper bound that absolute errors are clipped to. If None, there is no bound.
        rng: NumPy generator; None uses the global NumPy stream.

    Raises:
        ValueError: If an argument is outside its documented range. The message contains the argument's name and value.
    """

    _episodes_view = PrioritizedEpisodicMemory

    def __init__(
        self,
        capacity: int | None = None,
        alpha: float = 0.6,
        beta0: float = 0.4,
        betasteps: float | None = 2e5,
        eps: float = 1e-8,
        normalize_by_max: Normalization = True,
        default_priority_func: Callable[[Any], float] | None = None,
        uniform_ratio: float = 0,
        wait_priority_after_sampling: bool = True,
        return_sample_weights: bool = True,
        error_min: float | None = None,
        error_max: float | None = None,
        *,
        rng: RandomSource = None,
    ) -> None:
        check_uniform_ratio(uniform_ratio)
        if default_priority_func is not None and not callable(default_priority_func):
            raise TypeError(f"default_priority_func is {default_priority_func!r}, expected a function, or None")
        EpisodicReplayBuffer.__init__(self, capacity, rng=rng)
        PriorityWeightError.__init__(self, alpha, beta0, betasteps, eps, normalize_by_max, error_min, error_max)
        self.default_priority_func, self.uniform_ratio = default_priority_func, uniform_ratio
        self.wait_priority_after_sampling = wait_priority_after_sampling
        self.return_sample_weights = return_sample_weights

    def _draw_episodes(self, n: int) -> tuple[Index, Floats | None]:
        if self.wait_priority_after_sampling and self._last_index is not None:
            raise RuntimeError("call update_errors before the next sample, or set wait_priority_after_sampling=False")
        index, probability = self._priorities.draw(n, self.uniform_ratio, self._rng)
        self._last_index = index
        if not self.return_sample_weights:
            return index, None
        use_memory = self.normalize_by_max == "memory"
        lowest = self._priorities.min_probability(self.uniform_ratio) if use_memory else math.nan
        return index, self.weights_from_probabilities(probability, lowest)

    def _items_added(self, first: int, count: int) -> None:
        # A new episode first has the maximum priority, so that it is stored even if the user's function raises an
        # error.
        self._priorities.append()
        if self.default_priority_func is not None:
            number = self._next_episode - 1
            self._priorities.set([number], [self.default_priority_func(self._episode(number))])

    def _drop_episodes(self, count: int) -> None:
        super()._drop_episodes(count)
        self._priorities.popleft(count)
