"""A layer that keeps what passes through it small."""

from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.utils.contexts import ignores_training


@ignores_training
class ActivityPenalty(nn.Module):
    """Changes nothing on the way forward; backward it adds the gradient of `rate` times the mean square of its input.

    So whatever loss comes after has that term in it, without knowing of it.

    Args:
        rate: Weight of the term, at least 0.

    Raises:
        ValueError: If it is negative.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not rate >= 0:
            raise ValueError(f"rate is {rate!r}, expected at least 0")
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        """The same numbers."""
        if not (torch.is_grad_enabled() and x.requires_grad):
            return x
        out: Tensor = _Penalised.apply(x, self.rate)  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """The rate, for `repr`."""
        return f"rate={self.rate}"


class _Penalised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.rate = rate
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grads[0] + 2 * ctx.rate / x.numel() * x, None
