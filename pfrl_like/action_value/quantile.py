"""Returns as values of given quantiles (QR-DQN)."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.discrete import DiscreteActionValue, Formatter, unchanged
from pfrl_like.action_value.lazy_attribute import once
from pfrl_like.functions.distributional import even_fractions
from pfrl_like.functions.losses import huber, quantile_huber
from pfrl_like.functions.td import td_target


class QuantileDiscreteActionValue(DiscreteActionValue):
    """Quantiles of the returns of finitely many actions (arXiv:1710.10044).

    Args:
        quantiles: Values of the quantiles, [B, n_taus, n_actions].
        q_values_formatter: As in `DiscreteActionValue`.
        action_mask: As in `DiscreteActionValue`.
        taus: Which quantiles they are, in (0, 1), [B, n_taus]; None for the midpoints (i + 0.5) / n_taus.
        masses: Probability that each quantile stands for, [B, n_taus]; None for the same, 1 / n_taus.

    Raises:
        TypeError: If `quantiles` is no tensor.
        ValueError: If `quantiles` has another number of dimensions.
    """

    def __init__(
        self,
        quantiles: Tensor,
        q_values_formatter: Formatter = unchanged,
        action_mask: Tensor | None = None,
        taus: Tensor | None = None,
        masses: Tensor | None = None,
    ) -> None:
        if not isinstance(quantiles, Tensor):
            raise TypeError(f"quantiles is a {type(quantiles).__name__}, expected a tensor [B, n_taus, n_actions]")
        if quantiles.ndim != 3:
            raise ValueError(f"quantiles has shape {tuple(quantiles.shape)}, expected [B, n_taus, n_actions]")
        self.quantiles = quantiles
        self.q_values_formatter = q_values_formatter
        self.action_mask = action_mask
        self.taus = taus
        self.masses = masses

    @once
    def q_values(self) -> Tensor:
        """Means of the returns, [B, n_actions]."""
        return self.mean_of(self.quantiles)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.quantiles.shape[2]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(quantiles,)."""
        return (self.quantiles,)

    def evaluate_actions_as_quantiles(self, actions: Tensor) -> Tensor:
        """Quantiles of one action for each state, [B, n_taus]."""
        index = actions.long()[:, None, None].expand(-1, self.quantiles.shape[1], 1)
        return self.quantiles.gather(2, index).squeeze(2)  # which refuses -1

    def mean_of(self, quantiles: Tensor) -> Tensor:
        """Mean of other distributions with quantiles of the same masses, [B, n_taus, ...] to [B, ...]."""
        return quantiles.mean(1) if self.masses is None else torch.einsum("bn...,bn->b...", quantiles, self.masses)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Quantile Huber loss (eq. 10); the measure of error is the distance of the means."""
        prediction = self.evaluate_actions_as_quantiles(action)
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_quantiles = next_value.evaluate_actions_as_quantiles(next_action)
            target = td_target(reward.unsqueeze(1), discount.unsqueeze(1), next_quantiles)
            taus = even_fractions(prediction.shape[1], prediction) if self.taus is None else self.taus
            value = self.mean_of(prediction)
            error = (next_value.mean_of(target) - value).abs()
        return quantile_huber(prediction, target, taus, next_value.masses), error, value

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        taus, masses = (None if each is None else each[rows] for each in (self.taus, self.masses))
        return type(self)(self.quantiles[rows], self.q_values_formatter, action_mask, taus, masses)
