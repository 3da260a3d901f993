"""Explorers of `fit_online` and `collect`. All draw from NumPy's global generator, as d3rlpy's do."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.preprocessing import MinMaxActionScaler
from pfrl_like.utils.checks import check_numbers


class Explorer(ABC):
    """Interface of explorers."""

    @abstractmethod
    def sample(self, algo: Any, x: Any, step: int) -> NDArray[Any]:
        """Return an action for each observation.

        Args:
            algo: Algorithm with `predict`, `action_size` and `action_scaler`.
            x: Observations, [N, ...].
            step: Number of environment steps so far.

        Returns:
            Actions, [N] if they are discrete, otherwise [N, action_size].
        """


class ConstantEpsilonGreedy(Explorer):
    """Selects a random action with a constant probability, otherwise the greedy action.

    Args:
        epsilon: Probability of a random action.

    Raises:
        ValueError: If `epsilon` is not between 0 and 1.
    """

    def __init__(self, epsilon: float) -> None:
        check_numbers(0, 1, epsilon=epsilon)
        self._epsilon = epsilon

    def sample(self, algo: Any, x: Any, step: int) -> NDArray[Any]:
        return _epsilon_greedy(algo, x, self._epsilon)


class LinearDecayEpsilonGreedy(Explorer):
    """Selects a random action with a probability that decays linearly and is then constant.

    Args:
        start_epsilon: Probability of a random action at step 0.
        end_epsilon: Probability of a random action from step `duration` on.
        duration: Number of steps of the decay.

    Raises:
        ValueError: If a probability is not between 0 and 1, or `duration` is negative.
    """

    def __init__(self, start_epsilon: float = 1.0, end_epsilon: float = 0.1, duration: int = 1000000) -> None:
        check_numbers(0, 1, start_epsilon=start_epsilon, end_epsilon=end_epsilon)
        check_numbers(0, duration=duration)
        self._start_epsilon, self._end_epsilon, self._duration = start_epsilon, end_epsilon, duration

    def sample(self, algo: Any, x: Any, step: int) -> NDArray[Any]:
        return _epsilon_greedy(algo, x, self.compute_epsilon(step))

    def compute_epsilon(self, step: int) -> float:
        """Return the probability of a random action after `step` steps."""
        return float(np.interp(step, [0, self._duration], [self._start_epsilon, self._end_epsilon]))


def _epsilon_greedy(algo: Any, x: Any, epsilon: float) -> NDArray[Any]:
    greedy = algo.predict(x)
    random = np.random.randint(algo.action_size, size=len(greedy))
    return np.where(np.random.random(len(greedy)) < epsilon, random, greedy)


class NormalNoise(Explorer):
    """Adds normal noise to the greedy action.

    The sum is clipped to the range of the algorithm's action scaler if it is a min-max scaler, otherwise to [-1, 1].

    Args:
        mean: Mean of the noise.
        std: Standard deviation of the noise.

    Raises:
        ValueError: If `std` is negative.
    """

    def __init__(self, mean: float = 0.0, std: float = 0.1) -> None:
        check_numbers(mean=mean)
        check_numbers(0, std=std)
        self._mean, self._std = mean, std

    def sample(self, algo: Any, x: Any, step: int) -> NDArray[Any]:
        greedy = algo.predict(x)
        noisy = greedy + np.random.normal(self._mean, self._std, greedy.shape)
        scaler = algo.action_scaler
        clipped: NDArray[Any] = (
            np.clip(noisy, scaler.minimum, scaler.maximum)
            if isinstance(scaler, MinMaxActionScaler)
            else np.clip(noisy, -1.0, 1.0)
        )
        return clipped
