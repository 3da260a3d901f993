"""A map from all numbers to an interval, by tanh."""

from typing import Any

import torch
from torch import Tensor


def bound_by_tanh(x: Tensor, low: Any, high: Any) -> Tensor:
    """Map numbers to the interval [low, high]: tanh(x) * (high - low) / 2 + (high + low) / 2.

    Args:
        x: Any numbers, [..., n].
        low: Lower bounds, finite: a tensor, array or number with shape [n] or a shape that can be broadcast.
        high: Upper bounds, finite: a tensor, array or number with shape [n] or a shape that can be broadcast.

    Returns:
        Values with the shape, dtype and device of `x`.
    """
    least = torch.as_tensor(low, dtype=x.dtype, device=x.device)
    most = torch.as_tensor(high, dtype=x.dtype, device=x.device)
    return torch.tanh(x) * ((most - least) / 2) + (most + least) / 2
