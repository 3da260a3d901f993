"""Bounding of numbers to an interval by tanh."""

from typing import Any

import torch
from torch import Tensor


def bound_by_tanh(x: Tensor, low: Any, high: Any) -> Tensor:
    """tanh(x) * (high - low) / 2 + (high + low) / 2: values in [low, high], the middle for 0.

    Args:
        x: Any numbers, [..., n].
        low: Smallest values, tensor, array or number, [n] or anything that broadcasts; finite.
        high: Largest values, tensor, array or number, [n] or anything that broadcasts; finite.

    Returns:
        Values of the shape, dtype and device of `x`.
    """
    least = torch.as_tensor(low, dtype=x.dtype, device=x.device)
    most = torch.as_tensor(high, dtype=x.dtype, device=x.device)
    return torch.tanh(x) * ((most - least) / 2) + (most + least) / 2
