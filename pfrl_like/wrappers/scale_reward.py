"""Wrapper that multiplies rewards by a constant."""

from typing import Any

from pfrl_like.wrappers.wrapper import Wrapper


class ScaleReward(Wrapper):
    """Multiply rewards by a factor.

    Args:
        env: Environment to wrap.
        scale: The factor.

    Attributes:
        scale: The factor. The attribute may be changed at any time.
        original_reward: Latest reward before scaling; None before the first step.
    """

    def __init__(self, env: Any, scale: float) -> None:
        super().__init__(env)
        self.scale = scale
        self.original_reward: Any = None

    def reward(self, reward: Any) -> Any:
        """Return the reward times the factor."""
        self.original_reward = reward
        return self.scale * reward
