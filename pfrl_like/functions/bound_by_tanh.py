"""Numbers squeezed into an interval."""

import torch
from torch import Tensor


def bound_by_tanh(x: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """tanh(x) * (high - low) / 2 + (high + low) / 2: values of [low, high], the middle for 0.

    Args:
        x: Any numbers, [..., n].
        low: Smallest values, [n] or what else broadcasts; finite.
        high: Largest values, likewise.
    """
    return torch.tanh(x) * ((high - low) / 2) + (high + low) / 2
