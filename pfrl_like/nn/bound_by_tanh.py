"""`BoundByTanh` bounds values by tanh; `ActivityPenalty` keeps the input of tanh small."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.utils.contexts import ignores_training


@ignores_training
class BoundByTanh(nn.Module):
    """Maps numbers to the interval [low, high] by tanh. 0 is mapped to the middle of the interval.

    Args:
        low: Lower bounds, an array or tensor that is broadcast to the input's shape.
        high: Upper bounds, an array or tensor that is broadcast to the input's shape.

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
        """Return values of the same shape, within the bounds."""
        return bound_by_tanh(x, self.low, self.high)


@ignores_training
class ActivityPenalty(nn.Module):
    """Identity function whose backward pass adds the gradient of `rate` times the mean square of the input.

    If a loss depends on the output, minimising the loss also minimises this penalty.

    Args:
        rate: Weight of the penalty, at least 0.

    Raises:
        ValueError: If `rate` is negative.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not rate >= 0:
            raise ValueError(f"rate is {rate!r}, expected at least 0")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """Return the input unchanged."""
        if not (torch.is_grad_enabled() and x.requires_grad):
            return x
        out: Tensor = _Penalised.apply(x, self.rate)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """Return the text of the rate in `repr`."""
        return f"rate={self.rate}"


class _Penalised(torch.autograd.Function):
    """Identity function with the gradient of `ActivityPenalty`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.rate = rate
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] + 2 * ctx.rate / x.numel() * x, None
