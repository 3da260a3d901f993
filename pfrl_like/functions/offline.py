"""What algorithms have in common that keep a policy close to recorded actions."""

from torch import Tensor


def exponential_weight(advantage: Tensor, temperature: float, max_weight: float) -> Tensor:
    """How much an action counts in advantage-weighted regression, min(exp(A / T), w).

    Imitation with these weights leads to the policy of the largest advantage within a divergence of the one that acted
    (arXiv:1910.00177, section 3; arXiv:2006.09359, section 4; arXiv:2110.06169, section 4.3).

    Args:
        advantage: A, in any shape; takes no gradient.
        temperature: T, positive; the smaller, the more the advantage counts.
        max_weight: w, positive.

    Returns:
        Same shape.
    """
    return (advantage.detach() / temperature).exp().clamp(max=max_weight)


def over_mean_size(value: Tensor) -> Tensor:
    """The values [N] divided by the mean of their absolute values, which takes no gradient (arXiv:2106.06860).

    Values that are all 0 stay so.
    """
    return value / value.detach().abs().mean().clamp_min(1e-8)


def squared_distance(action: Tensor, other: Tensor) -> Tensor:
    """Squared Euclidean distances of actions [N, ...], [N]."""
    return (action - other).square().flatten(1).sum(1)
