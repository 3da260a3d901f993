"""RMSprop of the DQN and A3C papers, and optimiser states shared between processes (arXiv:1602.01783)."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer, RMSprop


class RMSpropEpsInsideSqrt(RMSprop):
    """RMSprop that divides by sqrt(variance + eps); torch's RMSprop divides by sqrt(variance) + eps.

    If `centered` is True, the step is defined by arXiv:1308.0850, eq. 38 to 41 (DQN), otherwise by arXiv:1602.01783,
    section 4 (A3C). State and parameter groups have the same format as in `torch.optim.RMSprop`.

    Args:
        params: Parameters, or parameter groups.
        lr: Learning rate.
        alpha: Decay of the running means, in [0, 1).
        eps: Number added to the variance.
        weight_decay: Weight of the L2 regularisation.
        momentum: Weight with which the previous step is added to the new step.
        centered: True to use the variance of the gradient: its running mean square minus its squared running mean.
        maximize: True to maximise the objective instead of minimising it.

    Raises:
        ValueError: If a number is negative.
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
        """Update the parameters that have a gradient.

        Args:
            closure: Function that computes the loss and the gradients, and returns the loss. If None, `step` uses the
                existing gradients.

        Returns:
            The result of `closure`, or None if `closure` is None.
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
        """Make a step along these gradients with the hyperparameters of a parameter group."""
        optional = {"momentum_buffer": group["momentum"] > 0, "grad_avg": group["centered"]}
        names = ["step", "square_avg", *(name for name, is_used in optional.items() if is_used)]
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


#: Names and initial values of state tensors that change even in a step with zero gradients.
_INITIAL_VALUES = {"step": 0.0, "mu_product": 1.0}


def share_state(optimizer: Optimizer) -> None:
    """Move the state of an optimiser into shared memory. Copies of the optimiser in other processes then share it.

    If the optimiser has no state yet, the function creates it: running means and counts of zero. Learning rates and
    other hyperparameters are not shared. One difference: torch's SGD with momentum ignores `dampening` in the step that
    creates the state. With shared state, `dampening` also affects the first step.

    Args:
        optimizer: Any optimiser. If its `step` requires a closure, the function creates no state and shares only
            existing state.
    """
    make_state(optimizer)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.share_memory_()  # type: ignore[no-untyped-call]


def make_state(optimizer: Optimizer) -> None:
    """Create the state that the first step of an optimiser would create, without a change of its parameters."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    new = [param for param in params if param.requires_grad and not optimizer.state.get(param)]
    if not new:
        return
    copied = copy.deepcopy(optimizer)  # with copies of the parameters, which the step below changes
    for group in copied.param_groups:
        for name in {"weight_decay", "weight_decay_rate"} & group.keys():
            group[name] = 0
        for param in group["params"]:
            param.grad = torch.zeros_like(param) if param.requires_grad else None
    try:
        type(copied).step(copied)
    except TypeError:  # `step` requires a closure
        return
    pairs = zip(params, (param for group in copied.param_groups for param in group["params"]), strict=True)
    state_of = {param: copied.state[copied_param] for param, copied_param in pairs if copied_param in copied.state}
    for param in new:
        for name, value in state_of.get(param, {}).items():
            if name in _INITIAL_VALUES and isinstance(value, Tensor):
                value.fill_(_INITIAL_VALUES[name])
            optimizer.state[param][name] = value


class SharedRMSpropEpsInsideSqrt(RMSpropEpsInsideSqrt):
    """`RMSpropEpsInsideSqrt` with its state in shared memory; the arguments are the same.

    The class exists for compatibility with PFRL. `train_agent_async` does not require it, because `train_agent_async`
    shares the state of any optimiser.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        share_state(self)
