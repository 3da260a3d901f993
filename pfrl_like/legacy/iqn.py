"""PFRL's function of IQN."""

from collections.abc import Callable

from torch import Tensor

from pfrl_like.action_value import QuantileDiscreteActionValue


def _evaluate_psi_x_with_quantile_thresholds(
    psi_x: Tensor, phi: Callable[[Tensor], Tensor], f: Callable[[Tensor], Tensor], taus: Tensor
) -> QuantileDiscreteActionValue:
    """Return the quantiles f(psi(x) * phi(tau)) as action values.

    Args:
        psi_x: Features, [B, hidden].
        phi: Function from fractions [B, n] to their embedding [B, n, hidden].
        f: Function from [B * n, hidden] to quantiles [B * n, n_actions].
        taus: Fractions, [B, n].
    """
    rows = f((psi_x.unsqueeze(1) * phi(taus)).flatten(0, 1))
    return QuantileDiscreteActionValue(rows.view(*taus.shape, -1))
