"""Distributions of returns: over fixed atoms (C51), by their quantiles, and mixtures without the largest ones."""

from collections.abc import Sequence

import torch
from torch import Tensor


def truncated_mixture(quantiles: Sequence[Tensor], n_dropped: int) -> Tensor:
    """The quantiles of several critics together, sorted, without the largest ones (arXiv:2005.04269, eq. 10 and 11).

    Args:
        quantiles: Of each critic, [B, N].
        n_dropped: How many are left out for each critic, less than N.

    Returns:
        [B, C * (N - n_dropped)], rising.

    Raises:
        ValueError: If nothing would be left.
    """
    together = torch.cat(list(quantiles), dim=1)
    kept = together.shape[1] - n_dropped * len(quantiles)
    if kept < 1:
        raise ValueError(
            f"n_dropped is {n_dropped}, expected less than the {quantiles[0].shape[1]} quantiles of a critic"
        )
    return together.sort(dim=1).values[:, :kept]


def categorical_projection(z: Tensor, target_values: Tensor, probs: Tensor) -> Tensor:
    """Project distributions onto evenly spaced atoms (Bellemare et al. 2017, arXiv:1707.06887, eq. 7, Algorithm 1).

    The mass at a value goes to the two atoms around it, the nearer one getting more; mass beyond the ends goes to the
    end atoms. A value that lies on an atom gives all its mass to that one.

    Args:
        z: Atoms, rising and evenly spaced, [N], N at least 2.
        target_values: Where the mass is, [B, M].
        probs: How much of it, [B, M].

    Returns:
        Mass at each atom, [B, N]; each row has the sum of the same row of `probs`.
    """
    n_atoms = z.shape[0]
    position = (target_values.clamp(z[0], z[-1]) - z[0]) * ((n_atoms - 1) / (z[-1] - z[0]))
    # The last atom is the upper neighbour of the last interval. The index of NaN is cut off too: its mass stays NaN.
    index = position.long().clamp(0, n_atoms - 2)
    upper_mass = probs * (position - index).clamp(0, 1)  # rounding may lead out of the interval by a hair
    projected = upper_mass.new_zeros(probs.shape[0], n_atoms)
    return projected.scatter_add(1, index, probs - upper_mass).scatter_add(1, index + 1, upper_mass)


def even_fractions(n: int, like: Tensor) -> Tensor:
    """The fractions whose quantiles stand for a distribution best: (i + 0.5) / n (arXiv:1710.10044, lemma 2).

    Args:
        n: How many.
        like: Has their dtype and device.

    Returns:
        [n].
    """
    return (torch.arange(n, dtype=like.dtype, device=like.device) + 0.5) / n
