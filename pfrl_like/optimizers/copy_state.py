"""Optimisers that go on from where others are."""

import copy
from collections.abc import Sequence

from torch.optim import Optimizer


def copy_optimizer_states(targets: Sequence[Optimizer], sources: Sequence[Optimizer], owner: str = "sources") -> None:
    """Take over the states of other optimisers of tensors alike, with their settings, such as the learning rate.

    PyTorch's own `load_state_dict` looks at the number of tensors alone, where a fused step with states of other shapes
    reads and writes outside of them; and what it takes are the tensors themselves, which both would move from then on.

    Args:
        targets: What takes them over; if one is refused all stay as they were.
        sources: What they are taken from, one for each.
        owner: Whose these are, for messages.

    Raises:
        ValueError: If they are not as many, one is of another class, or its tensors have other groups or shapes.
    """
    if len(targets) != len(sources):
        raise ValueError(f"{owner} has {len(sources)} optimisers, expected {len(targets)}")
    for target, source in zip(targets, sources, strict=True):
        _check_alike(target, source, owner)
    for target, source in zip(targets, sources, strict=True):
        target.load_state_dict(copy.deepcopy(source.state_dict()))


def _check_alike(target: Optimizer, source: Optimizer, owner: str) -> None:
    """Refuse an optimiser of tensors that are not alike."""
    if type(source) is not type(target):
        kinds = [type(each).__name__ for each in (source, target)]
        raise ValueError(f"{owner} has the optimiser {kinds[0]}, expected {kinds[1]}")
    came, expected = ([len(group["params"]) for group in each.param_groups] for each in (source, target))
    if came != expected:
        raise ValueError(f"{owner} has an optimiser of {came} tensors, group by group, expected one of {expected}")
    for index, shapes in enumerate(zip(_shapes(source), _shapes(target), strict=True)):
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{owner} has an optimiser of other networks: its tensor {index} has shape {shapes[0]}, expected "
                f"{shapes[1]}"
            )


def _shapes(optimizer: Optimizer) -> list[tuple[int, ...]]:
    return [tuple(param.shape) for group in optimizer.param_groups for param in group["params"]]
