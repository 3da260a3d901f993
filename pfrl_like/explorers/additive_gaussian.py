"""Exploration by Gaussian noise on continuous actions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.explorers.epsilon_greedy import RandomExplorer, active_rows, continuous
from pfrl_like.utils.random import RandomSource


class AdditiveGaussian(RandomExplorer):
    """Adds Gaussian noise to the greedy action, and clips the result to bounds.

    Args:
        scale: Standard deviation of the noise, a number or an array of the action's shape.
        low: Lower bound of the result, a number or an array of the action's shape. If None, there is no lower bound.
        high: Upper bound of the result, a number or an array of the action's shape. If None, there is no upper bound.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        ValueError: If `scale` is negative, or if `low` is above `high`.
    """

    reads_action_value = False
    action_kinds = ("continuous",)

    def __init__(self, scale: Any, low: Any = None, high: Any = None, *, rng: RandomSource = None) -> None:
        super().__init__(rng)
        if not np.all(np.asarray(scale) >= 0):
            raise ValueError(f"scale is {scale!r}, expected numbers that are not negative")
        if low is not None and high is not None and not np.all(np.asarray(low) <= np.asarray(high)):
            raise ValueError(f"low is {low!r} and high is {high!r}, expected low <= high")
        self.scale, self.low, self.high = scale, low, high

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return the greedy action plus noise.

        Raises:
            TypeError: If the action is an integer.
        """
        return self._add_noise(continuous(self, greedy_action_func()))

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return the greedy action of each environment plus independent noise, [k, ...].

        Raises:
            TypeError: If the actions are integers.
        """
        actions = continuous(self, greedy_actions).copy()
        rows = active_rows(active, len(actions))
        actions[rows] = self._add_noise(actions[rows])
        return actions

    def _add_noise(self, actions: NDArray[Any]) -> NDArray[Any]:
        noisy: NDArray[Any] = actions + self._source.normal(scale=self.scale, size=actions.shape).astype(np.float32)
        if self.low is not None or self.high is not None:
            noisy = np.clip(noisy, self.low, self.high).astype(noisy.dtype, copy=False)
        return noisy
