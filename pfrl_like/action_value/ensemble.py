"""Values of several critics: ensembles, and the minimum over critics."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value import quantile
from pfrl_like.action_value.base import Elementwise, Losses, lazy_attribute
from pfrl_like.action_value.discrete import DiscreteActionValue, DistributionalDiscreteActionValue, identity
from pfrl_like.functions.losses import bootstrap_weight, huber


def min_of(values: Sequence[Any], action: Tensor | None = None) -> Any:
    """Return, for each state, the value of the critic whose mean is smallest (arXiv:1802.09477, eq. 10).

    Args:
        values: Action values of the critics, all of the same class. `q_values` are [B, 1]: one action in each of B
            states.
        action: Actions whose means are compared, [B], if `q_values` are [B, n_actions].

    Returns:
        An action value of the critics' class.

    Raises:
        TypeError: If the critics' action values have different classes.
    """
    if len(values) == 1:
        return values[0]
    if {type(value) for value in values} == {DiscreteActionValue}:
        return DiscreteActionValue(torch.stack([value.q_values for value in values]).amin(0))
    _check_same_class(values)
    means = [value.q_values.squeeze(1) if action is None else value.evaluate_actions(action) for value in values]
    return _select_critic(values, torch.stack(means).argmin(0))


def soft_min_of(values: Sequence[Any], lam: float) -> Any:
    """Return, for each state, lam * minimum + (1 - lam) * maximum over the critics (arXiv:1812.02900, eq. 13).

    For distributional critics, the result is one critic's distribution: with probability lam the distribution with the
    smallest mean, otherwise the distribution with the largest mean. The choice uses PyTorch's global random generator.
    In expectation, the mean of the result is the value of the equation. If quantiles have the attribute `interpolates`,
    the equation is applied to each quantile of these two distributions.

    Args:
        values: Action values of the critics, all of the same class. `q_values` are [B, 1]: one action in each of B
            states.
        lam: Weight of the minimum over the critics, in [0, 1].

    Returns:
        An action value of the critics' class.

    Raises:
        TypeError: If the critics' action values have different classes.
    """
    _check_same_class(values)
    means = torch.stack([value.q_values for value in values])
    if type(values[0]) is DiscreteActionValue:
        return DiscreteActionValue(torch.lerp(means.amax(0), means.amin(0), lam))
    if getattr(values[0], "interpolates", False):
        low, high = (_select_critic(values, each(0).squeeze(1)).quantiles for each in (means.argmin, means.argmax))
        return quantile.QuantileDiscreteActionValue(torch.lerp(high, low, lam))
    use_min = torch.rand_like(means[0]) < lam
    return _select_critic(values, torch.where(use_min, means.argmin(0), means.argmax(0)).squeeze(1))


def _check_same_class(values: Sequence[Any]) -> None:
    if any(type(value) is not type(values[0]) for value in values):
        names = ", ".join(type(value).__name__ for value in values)
        raise TypeError(f"the critics return {names}, which cannot be compared: expected the same class for all")


def _select_critic(values: Sequence[Any], index: Tensor) -> Any:
    """Return, for each state, the distribution of one critic. `index` contains the critic's index, [B]."""
    first = values[0]

    def select(tensors: list[Tensor]) -> Tensor:
        return torch.stack(tensors)[index, torch.arange(len(index), device=index.device)]

    if isinstance(first, DistributionalDiscreteActionValue):
        return DistributionalDiscreteActionValue(select([value.q_dist for value in values]), first.z_values)
    if isinstance(first, quantile.QuantileDiscreteActionValue):
        return quantile.QuantileDiscreteActionValue(select([value.quantiles for value in values]))
    if not isinstance(first, quantile.ImplicitQuantileActionValue):
        raise TypeError(f"{type(first).__name__} cannot be compared by its mean")

    def quantile_function(_: Tensor, taus: Tensor) -> Tensor:
        return select([value.quantile_function(value.features, taus) for value in values])

    if isinstance(first, quantile.FullyParametrizedActionValue):
        masses = select([value.masses for value in values])
        return quantile.FullyParametrizedActionValue(first.features, quantile_function, masses, first.entropy_coeff)
    return quantile.ImplicitQuantileActionValue(first.features, quantile_function, first.thresholds)


class EnsembleActionValue(DiscreteActionValue):
    """Values of discrete actions under several Q-functions. Greedy actions maximise their mean or minimum.

    All members have the same target. It uses the minimum of the target networks' values of the next action
    (arXiv:1802.09477, eq. 10). The loss of a row is the sum of the members' losses.

    Args:
        members: Values of the members, `DiscreteActionValue`s of the same class.
        bootstrap: True to train each member on its own random subset of the rows (`bootstrap_weight`), so that the
            members differ.
        pool: Reduction of the members' values to `q_values`: "mean", or "least" for the minimum.
    """

    def __init__(self, members: Sequence[Any], bootstrap: bool = False, pool: str = "mean") -> None:
        self.members, self.bootstrap, self.pool = tuple(members), bootstrap, pool
        self.action_mask = self.members[0].action_mask
        self.q_values_formatter = identity

    @lazy_attribute
    def q_values(self) -> Tensor:
        """Mean or minimum over the members' values, [B, n_actions]."""
        values = torch.stack([member.q_values for member in self.members])
        return values.mean(0) if self.pool == "mean" else values.amin(0)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.members[0].n_actions)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """A tuple with the `params` of all members."""
        return tuple(tensor for member in self.members for tensor in member.params)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Elementwise = huber,
    ) -> Losses:
        """Return the sum of the members' losses for a common target, and the mean of their absolute errors."""
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            minimum = min_of(next_value.members, next_action)
        return self._total(lambda member: member.td_loss(action, reward, discount, minimum, next_action, elementwise))

    def target_loss(self, action: Tensor, target: Tensor, elementwise: Elementwise = huber) -> Losses:
        """Return the sum of the members' losses for target values, and the mean of their absolute errors."""
        return self._total(lambda member: member.target_loss(action, target, elementwise))

    def _total(self, loss_of: Callable[[Any], Losses]) -> Losses:
        losses, errors, values = map(torch.stack, zip(*map(loss_of, self.members), strict=True))
        weights = bootstrap_weight(losses) if self.bootstrap else 1
        return (weights * losses).sum(0), errors.abs().mean(0), values.mean(0)

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        members = [member._rows(rows, action_mask) for member in self.members]
        return type(self)(members, self.bootstrap, self.pool)
