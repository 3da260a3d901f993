"""Wrapper that rescales actions from [-1, 1] to the bounds of the environment."""

from typing import Any

import numpy as np

from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.wrappers.wrapper import Wrapper


class NormalizeActionSpace(Wrapper):
    """Map actions linearly from [-1, 1] in every dimension to the bounds of the environment's Box action space.

    Args:
        env: Environment with a bounded Box action space.

    Raises:
        ValueError: If the action space is not a Box, or if it has an infinite bound.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        space = env.action_space
        if space_kind(space) != "box" or not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise ValueError(f"env has the action space {space}, expected a Box with finite bounds")
        dtype = space.dtype.type if space.dtype.kind == "f" else np.float32
        ones = np.ones(space.shape, dtype=dtype)
        self.action_space = box_class(space)(-ones, ones, dtype=dtype)
        self._low, self._half_width = space.low, (space.high - space.low) / 2

    def action(self, action: Any) -> Any:
        """Map an action in [-1, 1] to the environment's bounds, and return it as a new array."""
        return (action + 1) * self._half_width + self._low
