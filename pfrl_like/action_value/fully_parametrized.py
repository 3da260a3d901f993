"""Returns by quantiles whose fractions a network proposes (FQF)."""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from pfrl_like.action_value.implicit_quantile import ImplicitQuantileActionValue, QuantileFunction
from pfrl_like.action_value.lazy_attribute import once
from pfrl_like.action_value.quantile import QuantileDiscreteActionValue
from pfrl_like.functions.losses import huber


class FullyParametrizedActionValue(ImplicitQuantileActionValue):
    """Returns of finitely many actions by quantiles whose fractions a network proposes (arXiv:1911.02140).

    The fractions cut the probability into n parts, whose masses are proposed; the quantile in the middle of a part
    stands for it. The greedy action and both sides of a TD error come from these quantiles.

    Args:
        features: As in `ImplicitQuantileActionValue`.
        quantile_function: As in `ImplicitQuantileActionValue`.
        masses: Probability of each part, proposed for the state, [B, n], positive, of sum 1.
        entropy_coeff: Weight of the entropy of the masses, which keeps them from shrinking to nothing.
        action_mask: As in `DiscreteActionValue`.
    """

    def __init__(
        self,
        features: Tensor,
        quantile_function: QuantileFunction,
        masses: Tensor,
        entropy_coeff: float = 0.0,
        action_mask: Tensor | None = None,
    ) -> None:
        super().__init__(features, quantile_function, action_mask=action_mask)
        self.masses = masses
        self.entropy_coeff = entropy_coeff

    @once
    def edges(self) -> Tensor:
        """Where one part ends and the next begins, tau_1 to tau_n = 1, [B, n]."""
        return self.masses.cumsum(1)

    @once
    def taus(self) -> Tensor:
        """The middles of the parts, [B, n], without gradient."""
        return (self.edges - self.masses / 2).detach()

    @once
    def quantile_value(self) -> QuantileDiscreteActionValue:
        """The quantiles in the middles of the parts."""
        value = self(self.taus)
        value.masses = self.masses.detach()
        return value

    def at_even_fractions(self) -> Self:
        """The same values: nothing about them is random."""
        return self

    def td_loss(
        self,
        action: Tensor,
        reward: Tensor,
        discount: Tensor,
        next_value: Any,
        next_action: Tensor | None = None,
        elementwise: Callable[[Tensor], Tensor] = huber,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Quantile Huber loss of the proposed quantiles, which the proposal does not feel, and `fraction_loss`.

        A quantile of the next state counts with the mass of its part: counted alike, as in the paper, they would be
        another distribution than the one that `q_values` are the means of.
        """
        with torch.no_grad():
            if next_action is None:
                next_action = next_value.greedy_actions
            next_quantiles = next_value.quantile_value
        loss, error, value = self.quantile_value.td_loss(action, reward, discount, next_quantiles, next_action)
        return loss + self.fraction_loss(action), error, value

    def fraction_loss(self, action: Tensor) -> Tensor:
        """A number whose gradient in the fractions is that of the Wasserstein distance (section 3.2), [B].

        The distance between the quantile function and the steps that stand for it has the derivative
        2 F(tau_i) - F(middle before) - F(middle after) in tau_i. The entropy's share is taken off.
        """
        inner = self.edges[:, :-1]
        with torch.no_grad():
            middle = self.quantile_value.evaluate_actions_as_quantiles(action)
            edge = self(inner).evaluate_actions_as_quantiles(action)
            slope = 2 * edge - middle[:, :-1] - middle[:, 1:]
        loss: Tensor = torch.linalg.vecdot(slope, inner)
        return loss - self.entropy_coeff * torch.special.entr(self.masses).sum(1) if self.entropy_coeff else loss

    def _rows(self, rows: Any, action_mask: Tensor | None) -> Self:
        return type(self)(
            self.features[rows], self.quantile_function, self.masses[rows], self.entropy_coeff, action_mask
        )
