"""Returns with quantiles at any fraction, drawn at random (IQN)."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from pfrl_like.action_value.discrete import DiscreteActionValue
from pfrl_like.action_value.lazy_attribute import once
from pfrl_like.action_value.quantile import QuantileDiscreteActionValue
from pfrl_like.functions.distributional import even_fractions
from pfrl_like.functions.losses import huber

QuantileFunction = Callable[[Tensor, Tensor], Tensor]


class QuantileThresholds(NamedTuple):
    """How many fractions are drawn for a state (arXiv:1806.06923, section 3.1).

    Args:
        N: For the quantiles that are learnt.
        N_prime: For the quantiles of the next state, which are learnt from.
        K: For the greedy action, and the mean of the returns.
    """

    N: int = 64
    N_prime: int = 64
    K: int = 32


_DEFAULT_THRESHOLDS = QuantileThresholds()


class ImplicitQuantileActionValue(DiscreteActionValue):
    """Returns of finitely many actions by their quantile function (arXiv:1806.06923).

    Called with fractions it gives their quantiles. What concerns means (`q_values`, `greedy_actions`, `max`, ...) is
    computed from the same K fractions, however often it is asked for, also of some of the states and after `masked`.

    Args:
        features: What the quantiles are computed from, [B, hidden].
        quantile_function: From features, [B, hidden], and fractions in (0, 1), [B, n], to quantiles, [B, n, n_actions].
        thresholds: How many fractions are drawn.
        action_mask: As in `DiscreteActionValue`.
        taus: The K fractions, [B, K]; None to draw them when they are needed.

    Raises:
        ValueError: If `features` has another number of dimensions.
    """

    def __init__(
        self,
        features: Tensor,
        quantile_function: QuantileFunction,
        thresholds: QuantileThresholds = _DEFAULT_THRESHOLDS,
        action_mask: Tensor | None = None,
        taus: Tensor | None = None,
    ) -> None:
        if features.ndim != 2:
            raise ValueError(f"features have shape {tuple(features.shape)}, expected [B, hidden]")
        self.features = features
        self.quantile_function = quantile_function
        self.thresholds = thresholds
        self.action_mask = action_mask
        if taus is not None:
            self.taus = taus

    def __call__(self, taus: Tensor) -> QuantileDiscreteActionValue:
        """The quantiles of the fractions, [B, n]."""
        quantiles = self.quantile_function(self.features, taus)
        return QuantileDiscreteActionValue(quantiles, action_mask=self.action_mask, taus=taus)

    @once
    def taus(self) -> Tensor:
        """The fractions of which means are made, [B, K]."""
        return self.draw(self.thresholds.K)

    @once
    def quantile_value(self) -> QuantileDiscreteActionValue:
        """The quantiles of which means are made."""
        return self(self.taus)

    @once
    def q_values(self) -> Tensor:
        """Means of the returns, [B, n_actions]."""
        return self.quantile_value.q_values

    @once
    def n_actions(self) -> int:
        """Number of actions."""
        with torch.no_grad():  # one quantile of one state is enough to tell
            one = self.features[:1]
            return self.quantile_function(one, one.new_full((1, 1), 0.5)).shape[2]

    @property
    def params(self) -> tuple[Tensor, ...]:
        """(features,)."""
        return (self.features,)

    def draw(self, n: int) -> Tensor:
        """As many fractions for every state, [B, n], uniform in [0, 1), from PyTorch's global stream."""
        return torch.rand(self.features.shape[0], n, dtype=self.features.dtype, device=self.features.device)

    def at_even_fractions(self) -> Self:
        """The same values with means of evenly spaced fractions, so that nothing is random."""
        taus = even_fractions(self.thresholds.K, self.features).expand(self.features.shape[0], -1)
        return type(self)(self.features, self.quantile_function, self.thresholds, self.action_mask, taus)

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Quantile Huber loss of N quantiles against N' (arXiv:1806.06923, eq. 2 and 3), summed over N.

        The measure of error is the distance of their means.
        """
        value = self(self.draw(self.thresholds.N))
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_quantiles = next_value(next_value.draw(self.thresholds.N_prime))
        return value.td_loss(action, reward, discount, next_quantiles, next_action)

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(self.features[rows], self.quantile_function, self.thresholds, action_mask, self.taus[rows])

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.quantile_value!r}"
