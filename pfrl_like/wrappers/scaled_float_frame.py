"""Images as numbers in [0, 1]."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.spaces import box_class, space_kind
from pfrl_like.wrappers.wrapper import Wrapper


class ScaledFloatFrame(Wrapper):
    """Divide observations by 255, as float32.

    A replay buffer needs four times the memory for these; a `phi` that divides needs none.

    Args:
        env: Environment with arrays as observations.

    Raises:
        ValueError: If the observation space is no Box.
    """

    scale = 255.0

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.observation_space
        if space_kind(space) != "box":
            raise ValueError(f"env has the observation space {space}, expected a Box")
        low, high = self.observation(space.low), self.observation(space.high)
        self.observation_space = box_class(space)(low, high, dtype=np.float32)

    def observation(self, observation: Any) -> NDArray[np.float32]:
        """The observation divided by 255."""
        return np.asarray(observation).astype(np.float32) / np.float32(self.scale)
