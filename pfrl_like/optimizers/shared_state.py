"""The state of an optimiser in shared memory, where several processes use it without a lock (arXiv:1602.01783)."""

import copy

import torch
from torch import Tensor
from torch.optim import Optimizer

from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt

#: What an optimiser's own tensors are before the first step, where that is not what a step without gradient leaves.
_AT_FIRST = {"step": 0.0, "mu_product": 1.0}


def share_state(optimizer: Optimizer) -> None:
    """Move the state of an optimiser into shared memory, so that copies of it in other processes go on with the same.

    State that the first step would make is made now: running means of zero, counts of zero. Learning rates and the
    like are no state; each process keeps its own.

    Args:
        optimizer: Any optimiser; of one whose `step` needs a closure only the state that it has is shared.
    """
    make_state(optimizer)
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.share_memory_()  # type: ignore[no-untyped-call]


def make_state(optimizer: Optimizer) -> None:
    """Make the state that the first step of an optimiser would make; its parameters stay as they are."""
    params = [param for group in optimizer.param_groups for param in group["params"]]
    new = [param for param in params if param.requires_grad and not optimizer.state.get(param)]
    if not new:
        return
    trial = copy.deepcopy(optimizer)  # whose parameters are copies, too
    for group in trial.param_groups:
        for name in {"weight_decay", "weight_decay_rate"} & group.keys():
            group[name] = 0
        for param in group["params"]:
            param.grad = torch.zeros_like(param) if param.requires_grad else None
    try:
        type(trial).step(trial)
    except TypeError:  # it needs a closure
        return
    made = zip(params, (param for group in trial.param_groups for param in group["params"]), strict=True)
    state_of = {param: trial.state[twin] for param, twin in made if twin in trial.state}
    for param in new:
        for name, value in state_of.get(param, {}).items():
            if name in _AT_FIRST and isinstance(value, Tensor):
                value.fill_(_AT_FIRST[name])
            optimizer.state[param][name] = value


class SharedRMSpropEpsInsideSqrt(RMSpropEpsInsideSqrt):
    """`RMSpropEpsInsideSqrt` whose state exists, in shared memory, from the beginning; arguments as there.

    PFRL's name for what `train_agent_async` does with the state of any optimiser.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        share_state(self)
