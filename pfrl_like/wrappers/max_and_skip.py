"""Actions that are repeated for several frames."""

from typing import Any

import numpy as np

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.spaces import space_kind
from pfrl_like.wrappers.wrapper import Wrapper, has_ended


class MaxAndSkipEnv(Wrapper):
    """Repeat each action, sum up the rewards, and show the larger of the last two frames in every pixel.

    Atari games draw some objects in every second frame only. If the episode ends before the last repetition, the two
    frames are the last ones there were.

    Args:
        env: Environment with arrays as observations.
        skip: How often an action is repeated.

    Raises:
        ValueError: If the observations are no arrays, or `skip` is less than 1.
    """

    def __init__(self, env: Any, skip: int = 4) -> None:
        super().__init__(env)
        check_counts(skip=skip)
        space = env.observation_space
        if space_kind(space) != "box":
            raise ValueError(f"env has the observation space {space}, expected a Box")
        self._skip = skip
        self._last_two = np.zeros((2, *space.shape), space.dtype)

    def step(self, action: Any) -> Any:
        """Act up to `skip` times."""
        total = 0.0
        for i in range(self._skip):
            result = self.env.step(action)
            self._last_two[i % 2] = result[0]
            total += float(result[1])
            if has_ended(result):
                break
        obs = np.maximum(*self._last_two) if i else result[0]
        return (obs, total, *result[2:])
