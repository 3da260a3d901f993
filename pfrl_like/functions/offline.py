"""What algorithms have in common that keep a policy close to recorded actions."""

import torch
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
    """Squared Euclidean distances of actions [N, ...], [N].

    Raises:
        ValueError: If their shapes differ.
    """
    _check_same_shape(action, other)
    return (action - other).square().flatten(1).sum(1)


def _check_same_shape(action: Tensor, other: Tensor) -> None:
    if action.shape != other.shape:  # broadcast, they would be compared without a word
        raise ValueError(f"got actions of shape {tuple(action.shape)} and {tuple(other.shape)}, expected the same")


#: Distances of two vectors, [..., A], whose exponential a kernel is, by the kernel's name.
_DISTANCES = {"gaussian": torch.square, "laplacian": torch.abs}
#: What keeps the root from having an infinite derivative where two samples are the same.
_LEAST_SQUARE = 1e-6


def maximum_mean_discrepancy(x: Tensor, y: Tensor, sigma: float, kernel: str = "gaussian") -> Tensor:
    """How far two samples lie apart, the root of mean k(x, x') - 2 mean k(x, y) + mean k(y, y').

    (Gretton et al. 2012, eq. 2 and 5; arXiv:1906.00949, section 5.) The kernel is exp(-d / (2 sigma)), with d the
    squared Euclidean distance or the sum of the absolute differences, as in the code of the latter.

    Args:
        x: n vectors for each of N rows, [n, N, A].
        y: m vectors for each of N rows, [m, N, A].
        sigma: Width of the kernel, positive.
        kernel: "gaussian" or "laplacian".

    Returns:
        [N].

    Raises:
        ValueError: If N or A differ.
    """
    _check_same_shape(x[0], y[0])

    def mean_kernel(first: Tensor, second: Tensor) -> Tensor:
        distance = _DISTANCES[kernel](first.unsqueeze(0) - second.unsqueeze(1)).sum(-1)
        return (-distance / (2 * sigma)).exp().mean((0, 1))

    square = mean_kernel(x, x) - 2 * mean_kernel(x, y) + mean_kernel(y, y)
    return (square.clamp_min(0) + _LEAST_SQUARE).sqrt()
