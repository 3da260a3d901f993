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
    """Replay buffer whose episodes are drawn in proportion to one priority each.

    `sample_episodes` and `sample_sequences` draw by priority; `sample` and `sample_batch` draw transitions uniformly.
    `update_errors` and `update_priorities` take one error per episode or sequence. `PriorityWeightError` has the
    equations of priorities and weights, in which N is the number of episodes.

    Args:
        capacity: Largest number of transitions, beyond which the oldest episodes are removed; None if unbounded.
        alpha: Exponent of the priorities, >= 0; 0 draws uniformly.
        beta0: Exponent of the weights at the first draw, from 0 to 1.
        betasteps: Number of draws over which the exponent of the weights grows to 1; None keeps it at `beta0`.
        eps: Added to the absolute errors, >= 0; a positive number lets items of error 0 be drawn again.
        normalize_by_max: Divide the weights by the largest one of the minibatch (True or "batch"), by the largest one
            that any stored item would have ("memory"), or not at all (False).
        default_priority_func: Function that gives the priority (not the error) of a new episode from its list of
            transition dicts; None gives it the largest priority so far.
        uniform_ratio: Probability of each draw to be uniform instead, from 0 to 1.
        wait_priority_after_sampling: True to refuse a draw before the errors of the last one are written back.
        return_sample_weights: True to compute importance weights: `sample_episodes` then returns (episodes, weights),
            and `sample_sequences` fills `Batch.weight` with the weight of a sequence for each of its rows.
        error_min: Smaller absolute errors count as this; None for no limit.
        error_max: Larger absolute errors count as this; None for no limit.
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: Naming the argument that is out of its range.
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
        self.default_priority_func = default_priority_func
        self.uniform_ratio = uniform_ratio
        self.wait_priority_after_sampling = wait_priority_after_sampling
        self.return_sample_weights = return_sample_weights

    def _draw_episodes(self, n: int) -> tuple[Index, Floats | None]:
        if self.wait_priority_after_sampling and self._last_index is not None:
            raise RuntimeError(
                "the errors of the last sample have to be written back (update_errors or update_priorities) before the "
                "next one; wait_priority_after_sampling=False lifts this"
            )
        index, probability = self._priorities.draw(n, self.uniform_ratio, self._rng)
        self._last_index = index
        if not self.return_sample_weights:
            return index, None
        of_memory = self.normalize_by_max == "memory"
        lowest = self._priorities.min_probability(self.uniform_ratio) if of_memory else math.nan
        return index, self.weights_from_probabilities(probability, lowest)

    def _items_added(self, first: int, count: int) -> None:
        # The episode first gets the largest priority, so that it is stored even if the user's function fails.
        self._priorities.append()
        if self.default_priority_func is not None:
            number = self._next_episode - 1
            self._priorities.set([number], [self.default_priority_func(self._episode(number))])

    def _drop_episodes(self, count: int) -> None:
        super()._drop_episodes(count)
        self._priorities.popleft(count)
