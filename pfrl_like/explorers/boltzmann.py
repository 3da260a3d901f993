"""Boltzmann exploration."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.explorers.epsilon_greedy import RandomExplorer, active_rows
from pfrl_like.utils.random import RandomSource


class Boltzmann(RandomExplorer):
    """Samples discrete actions with probabilities proportional to exp(Q(s, a) / T). Masked actions are not sampled.

    Args:
        T: Temperature, above 0. Actions are more random if the temperature is higher.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        ValueError: If `T` is not positive.
    """

    action_kinds = ("discrete",)

    def __init__(self, T: float = 1.0, *, rng: RandomSource = None) -> None:
        super().__init__(rng)
        if not T > 0:
            raise ValueError(f"T is {T!r}, expected a positive number")
        self.T = T

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return a random action for one state. The batch size of `action_value` is 1.

        Raises:
            TypeError: If `action_value` is not a `DiscreteActionValue`.
        """
        return self._sample(action_value, np.arange(1))[0]

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return a random action for each of k environments, [k].

        Raises:
            TypeError: If `action_value` is not a `DiscreteActionValue`.
        """
        rows = active_rows(active, len(greedy_actions))
        actions = np.array(greedy_actions)
        actions[rows] = self._sample(action_value, rows)
        return actions

    def _sample(self, action_value: Any, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if not isinstance(action_value, DiscreteActionValue):
            hint = "for continuous actions use AdditiveGaussian or AdditiveOU"
            raise TypeError(f"action_value is {type(action_value).__name__}, expected a DiscreteActionValue: {hint}")
        with torch.no_grad():
            logits = action_value.without_forbidden(action_value.q_values / self.T)
            probs = torch.softmax(logits, 1).cpu().numpy()[rows]
        cumulative = probs.astype(np.float64).cumsum(1)
        cumulative /= cumulative[:, -1:]
        # The action is the first one whose cumulative probability exceeds the random number, as in np.random.choice.
        actions: NDArray[np.int64] = (cumulative <= self._source.random((len(rows), 1))).sum(1)
        return actions
