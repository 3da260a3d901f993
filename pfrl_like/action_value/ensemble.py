"""What several Q-functions together say of a state."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.discrete import DiscreteActionValue, unchanged
from pfrl_like.action_value.lazy_attribute import once
from pfrl_like.action_value.least import least_of
from pfrl_like.functions.losses import bootstrap_weight, huber


class EnsembleActionValue(DiscreteActionValue):
    """Values of finitely many actions under several Q-functions: greedy is what is best by their mean, or their least.

    Each of them learns from the same target, the least of what their targets hold of the action that is bootstrapped
    from (arXiv:1802.09477, eq. 10). The loss of a row is the sum of theirs.

    Args:
        members: What each of them says, `DiscreteActionValue`s of one form.
        bootstrap: Whether each learns from random rows only (`bootstrap_weight`), so that they differ.
        pool: "mean" or "least": what `q_values` are of theirs.
    """

    def __init__(self, members: Sequence[Any], bootstrap: bool = False, pool: str = "mean") -> None:
        self.members, self.bootstrap, self.pool = tuple(members), bootstrap, pool
        self.action_mask = self.members[0].action_mask
        self.q_values_formatter = unchanged

    @once
    def q_values(self) -> Tensor:
        """Means, or least, of their values, [B, n_actions]."""
        values = torch.stack([member.q_values for member in self.members])
        return values.mean(0) if self.pool == "mean" else values.amin(0)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.members[0].n_actions)

    @property
    def params(self) -> tuple[Tensor, ...]:
        """Those of all."""
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
        """Sum of the losses of all against one target; the measure of error is the average of theirs, without sign."""
        with torch.no_grad():
            next_action = next_value.greedy_actions if next_action is None else next_action
            least = least_of(next_value.members, next_action)
        return self._together(lambda member: member.td_loss(action, reward, discount, least, next_action, elementwise))

    def target_loss(
        self, action: Tensor, target: Tensor, elementwise: Callable[[Tensor], Tensor] = huber
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same against numbers."""
        return self._together(lambda member: member.target_loss(action, target, elementwise))

    def _together(self, loss_of: Callable[[Any], tuple[Tensor, Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        losses, errors, values = map(torch.stack, zip(*map(loss_of, self.members), strict=True))
        weights = bootstrap_weight(losses) if self.bootstrap else 1
        return (weights * losses).sum(0), errors.abs().mean(0), values.mean(0)

    def masked(self, action_mask: Any) -> Self:
        """The same of each member, without the actions that a mask, [B, n_actions], forbids."""
        return self._of([member.masked(action_mask) for member in self.members])

    def __getitem__(self, i: Any) -> Self:
        return self._of([member[i] for member in self.members])

    def _of(self, members: Sequence[Any]) -> Self:
        return type(self)(members, self.bootstrap, self.pool)
