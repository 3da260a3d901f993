"""Values of several critics: side by side, their least, or their mean."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.base import lazy_attribute
from pfrl_like.action_value.discrete import DiscreteActionValue, DistributionalDiscreteActionValue, unchanged
from pfrl_like.action_value.quantile import (
    FullyParametrizedActionValue,
    ImplicitQuantileActionValue,
    QuantileDiscreteActionValue,
)
from pfrl_like.functions.losses import bootstrap_weight, huber


def least_of(values: Sequence[Any], action: Tensor | None = None) -> Any:
    """Return for each state the value, or distribution, of the critic with the least mean (arXiv:1802.09477, eq. 10).

    Args:
        values: Critics' values of one action in each of B states, all of the same form; `q_values` are [B, 1].
        action: For values of several actions, with `q_values` [B, n_actions], the action whose means are compared, [B].

    Returns:
        A value of that form.

    Raises:
        TypeError: If the forms differ.
    """
    if len(values) == 1:
        return values[0]
    if {type(value) for value in values} == {DiscreteActionValue}:
        return DiscreteActionValue(torch.stack([value.q_values for value in values]).amin(0))
    _check_one_form(values)
    means = [value.q_values.squeeze(1) if action is None else value.evaluate_actions(action) for value in values]
    return _of_critic(values, torch.stack(means).argmin(0))


def soft_least_of(values: Sequence[Any], lam: float) -> Any:
    """Return for each state lam times the least value plus 1 - lam times the largest (arXiv:1812.02900, eq. 13).

    For distributions, return the least one with probability lam, and otherwise the largest one, drawn from PyTorch's
    global stream. Their mean is the same, and each is the distribution of one critic.

    Args:
        values: Critics' values of one action in each of B states, all of the same form; `q_values` are [B, 1].
        lam: Weight of the least value, in [0, 1].

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
    """Return for each state the distribution of the critic with this index, [B]."""
    first = values[0]

    def chosen(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors)[index, torch.arange(len(index), device=index.device)]

    if isinstance(first, DistributionalDiscreteActionValue):
        return DistributionalDiscreteActionValue(chosen([value.q_dist for value in values]), first.z_values)
    if isinstance(first, QuantileDiscreteActionValue):
        return QuantileDiscreteActionValue(chosen([value.quantiles for value in values]))
    if not isinstance(first, ImplicitQuantileActionValue):
        raise TypeError(f"{type(first).__name__} cannot be compared with others by its mean")

    def quantile_function(_: Tensor, taus: Tensor) -> Tensor:
        return chosen([value.quantile_function(value.features, taus) for value in values])

    if isinstance(first, FullyParametrizedActionValue):
        masses = chosen([value.masses for value in values])
        return FullyParametrizedActionValue(first.features, quantile_function, masses, first.entropy_coeff)
    return ImplicitQuantileActionValue(first.features, quantile_function, first.thresholds)


class EnsembleActionValue(DiscreteActionValue):
    """Values of finitely many actions under several Q-functions; greedy actions maximise their mean or their least.

    All members learn from the same target: the least of the target networks' values of the action that is bootstrapped
    from (arXiv:1802.09477, eq. 10). The loss of a row is the sum of the members' losses.

    Args:
        members: Values of the members, `DiscreteActionValue`s of one form.
        bootstrap: True to let each member learn from random rows only (`bootstrap_weight`), so that they differ.
        pool: "mean" or "least": the reduction from the members' values to `q_values`.
    """

    def __init__(self, members: Sequence[Any], bootstrap: bool = False, pool: str = "mean") -> None:
        self.members, self.bootstrap, self.pool = tuple(members), bootstrap, pool
        self.action_mask = self.members[0].action_mask
        self.q_values_formatter = unchanged

    @lazy_attribute
    def q_values(self) -> Tensor:
        """Mean, or least, of the members' values, [B, n_actions]."""
        values = torch.stack([member.q_values for member in self.members])
        return values.mean(0) if self.pool == "mean" else values.amin(0)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.members[0].n_actions)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of all members."""
        return tuple(tensor for member in self.members for tensor in member.params)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sum of the members' losses against one target; the error of a row is the mean of their absolute errors."""
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            least = least_of(next_value.members, next_action)
        return self._together(lambda member: member.td_loss(action, reward, discount, least, next_action, elementwise))

    def target_loss(
        self, action: Tensor, target: Tensor, elementwise: Callable[[Tensor], Tensor] = huber
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sum of the members' losses against target values; the error of a row is the mean of their absolute errors."""
        return self._together(lambda member: member.target_loss(action, target, elementwise))

    def _together(self, loss_of: Callable[[Any], tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        losses, errors, values = map(torch.stack, zip(*map(loss_of, self.members), strict=True))
        weights = bootstrap_weight(losses) if self.bootstrap else 1
        return (weights * losses).sum(0), errors.abs().mean(0), values.mean(0)

    def masked(self, action_mask: Any) -> Self:
        """Return the values of each member without the actions that a mask, [B, n_actions], forbids."""
        return self._of([member.masked(action_mask) for member in self.members])

    def __getitem__(self, i: Any) -> Self:
        return self._of([member[i] for member in self.members])

    def _of(self, members: Sequence[Any]) -> Self:
        return type(self)(members, self.bootstrap, self.pool)
