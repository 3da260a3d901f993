"""RMSprop of the DQN and A3C papers, and optimisers with a state that several processes share (arXiv:1602.01783)."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer, RMSprop


class RMSpropEpsInsideSqrt(RMSprop):
    """RMSprop that divides by sqrt(variance + eps); torch's RMSprop divides by sqrt(variance) + eps.

    If `centered`, the optimiser is RMSProp of arXiv:1308.0850, eq. 38 to 41 (DQN); otherwise RMSProp of
    arXiv:1602.01783, section 4 (A3C). State and parameter groups have the same format as in `torch.optim.RMSprop`.

    Args:
        params: Parameters, or parameter groups.
        lr: Learning rate.
        alpha: Decay of the running means, in [0, 1).
        eps: Number added to the variance.
        weight_decay: Weight of the L2 regularisation.
        momentum: Factor of the previous step.
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
            closure: Function that recomputes and returns the loss, or None.

        Returns:
            The result of `closure`; None without a closure.
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
        """Update the parameters of a group with the given gradients."""
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


#: Initial values of optimiser tensors that a step with zero gradients changes.
_AT_FIRST = {"step": 0.0, "mu_product": 1.0}


def share_state(optimizer: Optimizer) -> None:
    """Move the state of an optimiser into shared memory, so that copies of it in other processes share the state.

    The function creates the state that the first step would create: running means and counts of zero. Learning rates
    and other hyperparameters are not shared; each process has its own values. Torch's SGD with momentum applies no
    dampening in the step that creates its state. With a shared state, dampening applies to the first step, too.

    Args:
        optimizer: Any optimiser. If its `step` requires a closure, only existing state is shared.
    """
    make_state(optimizer)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.share_memory_()  # type: ignore[no-untyped-call]


def make_state(optimizer: Optimizer) -> None:
    """Create the state that the first step of an optimiser would create; its parameters stay unchanged."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    new = [param for param in params if param.requires_grad and not optimizer.state.get(param)]
    if not new:
        return
    trial = copy.deepcopy(optimizer)  # a deep copy also copies the parameters
    for group in trial.param_groups:
        for name in {"weight_decay", "weight_decay_rate"} & group.keys():
            group[name] = 0
        for param in group["params"]:
            param.grad = torch.zeros_like(param) if param.requires_grad else None
    try:
        type(trial).step(trial)
    except TypeError:  # `step` requires a closure
        return
    made = zip(params, (param for group in trial.param_groups for param in group["params"]), strict=True)
    state_of = {param: trial.state[twin] for param, twin in made if twin in trial.state}
    for param in new:
        for name, value in state_of.get(param, {}).items():
            if name in _AT_FIRST and isinstance(value, Tensor):
                value.fill_(_AT_FIRST[name])
            optimizer.state[param][name] = value


class SharedRMSpropEpsInsideSqrt(RMSpropEpsInsideSqrt):
    """`RMSpropEpsInsideSqrt` with a state in shared memory; the arguments are the same.

    The class exists for compatibility with PFRL. It is not needed, because `train_agent_async` shares the state of any
    optimiser.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        share_state(self)
