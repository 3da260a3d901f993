"""What optimisers keep of earlier steps, taken over from those of other parameters of the same form."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer


def take_states(
    params: Sequence[Tensor], optimizers: Sequence[Optimizer], others: Sequence[Tensor], theirs: Sequence[Optimizer]
) -> None:
    """Give parameters copies of what optimisers keep of others; of one that keeps nothing yet, nothing is kept then.

    Learning rates and the like stay.

    Args:
        params: The parameters.
        optimizers: Optimisers, among which are those of the parameters.
        others: A parameter of the same form for each.
        theirs: Optimisers, among which are those of the others.

    Raises:
        ValueError: If an optimiser is missing or of another kind, or keeps a tensor that has neither the parameter's
            shape nor is a number; all stay as they were.
    """
    new: dict[int, dict[str, Any]] = {}
    for param, other in zip(params, others, strict=True):
        own, source = _owner(param, optimizers), _owner(other, theirs)
        if type(own) is not type(source):
            raise ValueError(f"algo learns by {type(source).__name__}, expected {type(own).__name__}")
        new[id(param)] = copy.deepcopy(source.state.get(other, {}))
        for name, value in new[id(param)].items():
            if isinstance(value, Tensor) and value.dim() and value.shape != param.shape:
                got, expected = tuple(value.shape), tuple(param.shape)
                raise ValueError(f"algo has an optimiser whose {name} has shape {got}, expected {expected}")
    for optimizer in {id(each): each for each in (_owner(param, optimizers) for param in params)}.values():
        _put(optimizer, new)


def _owner(param: Tensor, optimizers: Sequence[Optimizer]) -> Optimizer:
    for optimizer in optimizers:
        if any(each is param for group in optimizer.param_groups for each in group["params"]):
            return optimizer
    raise ValueError(f"there is no optimiser of a parameter of shape {tuple(param.shape)}")


def _put(optimizer: Optimizer, new: dict[int, dict[str, Any]]) -> None:
    whole = optimizer.state_dict()
    params = [param for group in optimizer.param_groups for param in group["params"]]
    states = {i: new.get(id(param), whole["state"].get(i)) for i, param in enumerate(params)}
    whole["state"] = {i: state for i, state in states.items() if state}
    with torch.no_grad():
        optimizer.load_state_dict(whole)
