"""Rewards reduced to their signs."""

from typing import Any

import numpy as np

from pfrl_like.wrappers.wrapper import Wrapper


class ClipRewardEnv(Wrapper):
    """Replace rewards by their signs: -1, 0 or 1.

    Args:
        env: Environment to wrap.
    """

    def reward(self, reward: Any) -> float:
        """The sign of the reward."""
        return float(np.sign(reward))
