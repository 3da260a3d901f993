"""The optimisers' equations as tensor mathematics, for regions that are compiled as a whole.

Each function maps one parameter, its gradient and its state to their values after the step, and changes nothing. The
state is the one that PyTorch's optimiser of that name keeps, so that compiled and ordinary steps can follow each other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt

State = Mapping[str, Any]
Step = tuple[Tensor, dict[str, Tensor]]
Descent = Callable[[Tensor, Tensor, State, Tensor, Mapping[str, Any]], Step]


def adam(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    """Adam (arXiv:1412.6980, algorithm 1) with L2 regularisation in the gradient, AMSGrad on request."""
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    return _adam(param, grad, state, lr, group)


def adamw(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    """Adam with decoupled weight decay (arXiv:1711.05101, algorithm 2)."""
    return _adam(param * (1 - lr * group["weight_decay"]), grad, state, lr, group)


def _adam(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    beta1, beta2 = group["betas"]
    step = state["step"] + 1
    mean = torch.lerp(state["exp_avg"], grad, 1 - beta1)
    square = state["exp_avg_sq"] * beta2 + (1 - beta2) * grad * grad
    new = {"step": step, "exp_avg": mean, "exp_avg_sq": square}
    if group["amsgrad"]:
        square = new["max_exp_avg_sq"] = torch.maximum(state["max_exp_avg_sq"], square)
    # A stack has to be written to memory; from two separate numbers a compiler would compute the powers anew for every
    # element of the parameter.
    count = step.to(lr.device)
    correction1, correction2 = torch.stack([lr / (1 - beta1**count), (1 - beta2**count).rsqrt()]).unbind()
    return param - correction1 * mean / (square.sqrt() * correction2 + group["eps"]), new


def rmsprop(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    """RMSprop (Hinton 2012, lecture 6), centred (arXiv:1308.0850, eq. 40) and with momentum on request."""
    return _rmsprop(param, grad, state, lr, group, lambda variance, eps: variance.sqrt() + eps)


def rmsprop_eps_inside_sqrt(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    """RMSprop with epsilon added to the variance, not to its root."""
    return _rmsprop(param, grad, state, lr, group, lambda variance, eps: (variance + eps).sqrt())


def _rmsprop(
    param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any], root: Callable[..., Tensor]
) -> Step:
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    alpha = group["alpha"]
    square = state["square_avg"] * alpha + (1 - alpha) * grad * grad
    new = {"step": state["step"] + 1, "square_avg": square}
    variance = square
    if group["centered"]:
        mean = new["grad_avg"] = torch.lerp(state["grad_avg"], grad, 1 - alpha)
        variance = square - mean * mean
    direction = grad / root(variance, group["eps"])
    if group["momentum"]:
        direction = new["momentum_buffer"] = state["momentum_buffer"] * group["momentum"] + direction
    return param - lr * direction, new


def sgd(param: Tensor, grad: Tensor, state: State, lr: Tensor, group: Mapping[str, Any]) -> Step:
    """Stochastic gradient descent, with (Nesterov's) momentum on request."""
    if group["weight_decay"]:
        grad = grad + group["weight_decay"] * param
    momentum = group["momentum"]
    if not momentum:
        return param - lr * grad, {}
    buffer = state["momentum_buffer"] * momentum + (1 - group["dampening"]) * grad
    direction = grad + momentum * buffer if group["nesterov"] else buffer
    return param - lr * direction, {"momentum_buffer": buffer}


DESCENTS: dict[type[Optimizer], Descent] = {
    Adam: adam,
    AdamW: adamw,
    RMSprop: rmsprop,
    RMSpropEpsInsideSqrt: rmsprop_eps_inside_sqrt,
    SGD: sgd,
}
