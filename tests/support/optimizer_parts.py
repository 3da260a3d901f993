"""Optimisers with their options, by name: each is made of a model's parameters."""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from torch import Tensor
from torch.optim import SGD, Adagrad, Adam, AdamW, NAdam, Optimizer, RMSprop

from pfrl_like.optimizers import RMSpropEpsInsideSqrt


def two_groups(params: Iterable[Tensor]) -> Optimizer:
    """Those of the first layer apart."""
    first, second, *others = params
    return Adam([{"params": [first, second], "lr": 1e-2}, {"params": others, "lr": 1e-3, "eps": 1e-4}])


OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "Adam": partial(Adam, lr=1e-2),
    "Adam with L2": partial(Adam, lr=1e-2, weight_decay=0.1, betas=(0.8, 0.95), eps=1e-3),
    "Adam, AMSGrad": partial(Adam, lr=1e-2, amsgrad=True),
    "Adam, AMSGrad with L2": partial(Adam, lr=1e-2, amsgrad=True, weight_decay=0.1),
    "Adam, maximize": partial(Adam, lr=1e-2, maximize=True),
    "Adam, decoupled": partial(Adam, lr=1e-2, weight_decay=0.1, decoupled_weight_decay=True),
    "Adam, fused": partial(Adam, lr=1e-2, fused=True),
    "Adam, not fused": partial(Adam, lr=1e-2, fused=False),
    "Adam, foreach": partial(Adam, lr=1e-2, foreach=True),
    "Adam, tensor lr": partial(Adam, lr=torch.tensor(1e-2)),
    "AdamW": partial(AdamW, lr=1e-2, weight_decay=0.1),
    "AdamW, AMSGrad": partial(AdamW, lr=1e-2, amsgrad=True),
    "SGD": partial(SGD, lr=1e-1),
    "SGD with L2": partial(SGD, lr=1e-1, weight_decay=0.1),
    "SGD, momentum": partial(SGD, lr=1e-2, momentum=0.9, dampening=0.1, weight_decay=0.1),
    "SGD, Nesterov": partial(SGD, lr=1e-2, momentum=0.9, nesterov=True),
    "SGD, maximize": partial(SGD, lr=1e-2, maximize=True),
    "RMSprop": partial(RMSprop, lr=1e-2),
    "RMSprop with L2": partial(RMSprop, lr=1e-2, alpha=0.9, eps=1e-3, weight_decay=0.1),
    "RMSprop, centred": partial(RMSprop, lr=1e-2, centered=True),
    "RMSprop, momentum": partial(RMSprop, lr=1e-2, momentum=0.5, centered=True),
    "RMSpropEpsInsideSqrt": partial(RMSpropEpsInsideSqrt, lr=1e-2, eps=1e-2),
    "RMSpropEpsInsideSqrt, momentum": partial(
        RMSpropEpsInsideSqrt, lr=1e-2, centered=True, momentum=0.5, alpha=0.9, weight_decay=0.1
    ),
    "NAdam": partial(NAdam, lr=1e-2),
    "Adagrad": partial(Adagrad, lr=1e-2),
    "two groups": two_groups,
}
