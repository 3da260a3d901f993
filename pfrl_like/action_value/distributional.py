"""Returns as probabilities of fixed atoms (C51)."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.discrete import DiscreteActionValue, Formatter, unchanged
from pfrl_like.functions.distributional import categorical_projection
from pfrl_like.functions.losses import huber
from pfrl_like.functions.td import td_target


class DistributionalDiscreteActionValue(DiscreteActionValue):
    """Return distributions of finitely many actions over fixed atoms (arXiv:1707.06887).

    Args:
        q_dist: Probabilities of the atoms, [B, n_actions, n_atoms].
        z_values: Returns that the atoms stand for, [n_atoms], rising and evenly spaced.
        q_values_formatter: As in `DiscreteActionValue`.
        action_mask: As in `DiscreteActionValue`.

    Raises:
        TypeError: If `q_dist` or `z_values` is no tensor.
        ValueError: If their shapes do not fit.
    """

    def __init__(
        self,
        q_dist: Tensor,
        z_values: Tensor,
        q_values_formatter: Formatter = unchanged,
        action_mask: Tensor | None = None,
    ) -> None:
        if not (isinstance(q_dist, Tensor) and isinstance(z_values, Tensor)):
            raise TypeError(f"q_dist and z_values are {type(q_dist)} and {type(z_values)}, expected tensors")
        if q_dist.ndim != 3 or z_values.shape != q_dist.shape[2:]:
            raise ValueError(
                f"q_dist has shape {tuple(q_dist.shape)} and z_values {tuple(z_values.shape)}, expected "
                "[B, n_actions, n_atoms] and [n_atoms]"
            )
        self.q_dist = q_dist
        self.z_values = z_values
        self.q_values = q_dist @ z_values
        self.q_values_formatter = q_values_formatter
        self.action_mask = action_mask

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.q_dist.shape[1]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(q_dist,)."""
        return (self.q_dist,)

    @property
    def max_as_distribution(self) -> Tensor:
        """Return distributions of the greedy actions, [B, n_atoms]."""
        return self.evaluate_actions_as_distribution(self.greedy_actions)

    def evaluate_actions_as_distribution(self, actions: Tensor) -> Tensor:
        """Return distribution of one action for each state, [B, n_atoms]."""
        index = actions.long()[:, None, None].expand(-1, 1, self.q_dist.shape[2])
        return self.q_dist.gather(1, index).squeeze(1)  # which refuses -1

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Cross entropy to the projected target distribution (Algorithm 1), which is also the measure of error."""
        probs = self.evaluate_actions_as_distribution(action)
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_probs = next_value.evaluate_actions_as_distribution(next_action)
            values = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_value.z_values)
            target = categorical_projection(self.z_values, values, next_probs)
        loss = -(target * probs.clamp_min(1e-10).log()).sum(1)
        return loss, loss.detach(), probs.detach() @ self.z_values

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.q_dist[rows], self.z_values, self.q_values_formatter, action_mask)
