"""Values brought within bounds."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class BoundByTanh(nn.Module):
    """Squeezes values into [low, high] by tanh; 0 becomes the middle.

    Args:
        low: Smallest values, array or tensor that broadcasts against the input.
        high: Largest values, likewise.

    Raises:
        ValueError: If the bounds are infinite, or `low` is above `high`.
    """

    low: Tensor
    high: Tensor

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__()
        for name, bound in (("low", low), ("high", high)):
            if not np.isfinite(bound).all():
                raise ValueError(f"{name} is {bound!r}, expected finite bounds")
            self.register_buffer(name, torch.as_tensor(bound, dtype=torch.float32).clone(), persistent=False)
        if (self.low > self.high).any():
            raise ValueError(f"low is {low!r} and high is {high!r}, expected low <= high")

    def forward(self, x: Tensor) -> Tensor:
        """Values of the same shape, within the bounds."""
        return bound_by_tanh(x, self.low, self.high)
