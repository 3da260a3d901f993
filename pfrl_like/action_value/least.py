"""Of several critics' values of one action the least."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value.discrete import DiscreteActionValue
from pfrl_like.action_value.distributional import DistributionalDiscreteActionValue
from pfrl_like.action_value.fully_parametrized import FullyParametrizedActionValue
from pfrl_like.action_value.implicit_quantile import ImplicitQuantileActionValue
from pfrl_like.action_value.quantile import QuantileDiscreteActionValue


def least_of(values: Sequence[Any], action: Tensor | None = None) -> Any:
    """For each state the whole value, or distribution, of the critic whose mean is least (arXiv:1802.09477, eq. 10).

    Args:
        values: What critics say of one action in each of B states, of the same form all; `q_values` are [B, 1].
        action: Of values of several actions, `q_values` [B, n_actions], the one whose means are compared, [B].

    Returns:
        A value of that form.

    Raises:
        TypeError: If the forms differ.
    """
    if len(values) == 1:
        return values[0]
    _check_one_form(values)
    if type(values[0]) is DiscreteActionValue:
        return DiscreteActionValue(torch.stack([value.q_values for value in values]).amin(0))
    means = [value.q_values.squeeze(1) if action is None else value.evaluate_actions(action) for value in values]
    return _of_critic(values, torch.stack(means).argmin(0))


def soft_least_of(values: Sequence[Any], lam: float) -> Any:
    """For each state lam times the least value and 1 - lam times the largest (arXiv:1812.02900, eq. 13).

    Of distributions the least one with the probability lam, and else the largest one, drawn from PyTorch's global
    stream: their mean is the same, and each is one that a critic has learnt.

    Args:
        values: As of `least_of`.
        lam: Weight of the least one, in [0, 1].

    Returns:
        A value of that form.

    Raises:
        TypeError: If the forms differ.
    """
    _check_one_form(values)
    means = torch.stack([value.q_values for value in values])
    if type(values[0]) is DiscreteActionValue:
        return DiscreteActionValue(torch.lerp(means.amax(0), means.amin(0), lam))
    least = torch.rand_like(means[0]) < lam
    return _of_critic(values, torch.where(least, means.argmin(0), means.argmax(0)).squeeze(1))


def _check_one_form(values: Sequence[Any]) -> None:
    if any(type(value) is not type(values[0]) for value in values):
        names = ", ".join(type(value).__name__ for value in values)
        raise TypeError(f"the critics give {names}, of which none can be the least: expected the same for all")


def _of_critic(values: Sequence[Any], index: Tensor) -> Any:
    """For each state the distribution of the critic of this number, [B]."""
    first = values[0]

    def chosen(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors)[index, torch.arange(len(index), device=index.device)]

    if isinstance(first, DistributionalDiscreteActionValue):
        return DistributionalDiscreteActionValue(chosen([value.q_dist for value in values]), first.z_values)
    if isinstance(first, QuantileDiscreteActionValue):
        return QuantileDiscreteActionValue(chosen([value.quantiles for value in values]))
    if not isinstance(first, ImplicitQuantileActionValue):
        raise TypeError(f"a {type(first).__name__} cannot be compared with others by its mean")

    def quantile_function(_: Tensor, taus: Tensor) -> Tensor:
        return chosen([value.quantile_function(value.features, taus) for value in values])

    if isinstance(first, FullyParametrizedActionValue):
        masses = chosen([value.masses for value in values])
        return FullyParametrizedActionValue(first.features, quantile_function, masses, first.entropy_coeff)
    return ImplicitQuantileActionValue(first.features, quantile_function, first.thresholds)
