"""Mixtures of return distributions without their largest quantiles."""

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
