"""Numbers squeezed into an interval."""

from typing import Any

import torch
from torch import Tensor


def bound_by_tanh(x: Tensor, low: Any, high: Any) -> Tensor:
    """tanh(x) * (high - low) / 2 + (high + low) / 2: values of [low, high], the middle for 0.

    Args:
        x: Any numbers, [..., n].
        low: Smallest values, tensor or array [n] or what else broadcasts, of any dtype; finite.
        high: Largest values, likewise.
    """
    least, most = (torch.as_tensor(bound, dtype=x.dtype, device=x.device) for bound in (low, high))
    return torch.tanh(x) * ((most - least) / 2) + (most + least) / 2
