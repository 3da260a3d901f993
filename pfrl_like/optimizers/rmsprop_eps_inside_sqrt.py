"""The RMSprop of the DQN and A3C papers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import RMSprop


class RMSpropEpsInsideSqrt(RMSprop):
    """RMSprop that divides by sqrt(variance + eps), where torch's divides by sqrt(variance) + eps.

    With `centered` it is the RMSProp of arXiv:1308.0850, eq. 38 to 41 (DQN), without it that of arXiv:1602.01783,
    section 4 (A3C). State and parameter groups are those of `torch.optim.RMSprop`.

    Args:
        params: Parameters, or parameter groups.
        lr: Learning rate.
        alpha: Decay of the running means, in [0, 1).
        eps: Added to the variance.
        weight_decay: Factor of L2 regularisation.
        momentum: Factor of the step before.
        centered: Take the squared running mean of the gradient off its mean square.
        maximize: Ascend.

    Raises:
        ValueError: On negative numbers.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, alpha, eps, weight_decay, momentum, centered, maximize=maximize)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Move the parameters that have a gradient.

        Args:
            closure: Computes the loss anew, if given.

        Returns:
            What the closure gave.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if params:
                self.move(params, [param.grad for param in params], group)
        return loss

    @torch.no_grad()
    def move(self, params: list[Tensor], grads: list[Tensor], group: dict[str, Any]) -> None:
        """Move parameters of a group along these gradients."""
        names = (
            ["step", "square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * group["centered"]
        )
        for param in params:
            for name in names:
                if name not in self.state[param]:
                    self.state[param][name] = torch.tensor(0.0) if name == "step" else torch.zeros_like(param)
        states = {name: [self.state[param][name] for param in params] for name in names}
        alpha = group["alpha"]
        if group["maximize"]:
            grads = list(torch._foreach_neg(grads))
        if group["weight_decay"]:
            grads = list(torch._foreach_add(grads, params, alpha=group["weight_decay"]))
        torch._foreach_add_(states["step"], 1)
        torch._foreach_mul_(states["square_avg"], alpha)
        torch._foreach_addcmul_(states["square_avg"], grads, grads, 1 - alpha)
        variance = states["square_avg"]
        if group["centered"]:
            torch._foreach_lerp_(states["grad_avg"], grads, 1 - alpha)
            variance = list(torch._foreach_addcmul(variance, states["grad_avg"], states["grad_avg"], -1))
        roots = list(torch._foreach_add(variance, group["eps"]))
        torch._foreach_sqrt_(roots)
        if group["momentum"]:
            torch._foreach_mul_(states["momentum_buffer"], group["momentum"])
            torch._foreach_addcdiv_(states["momentum_buffer"], grads, roots)
            torch._foreach_add_(params, states["momentum_buffer"], alpha=-group["lr"])
        else:
            torch._foreach_addcdiv_(params, grads, roots, -group["lr"])
