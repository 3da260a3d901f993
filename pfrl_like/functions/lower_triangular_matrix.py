"""Lower triangular matrices from their entries."""

import torch
from torch import Tensor


def lower_triangular_matrix(diag: Tensor, non_diag: Tensor) -> Tensor:
    """Return matrices with these diagonals, these entries below the diagonal, and zeros above the diagonal.

    Args:
        diag: Diagonals, [B, n].
        non_diag: Entries below the diagonal, row by row, [B, n * (n - 1) / 2].

    Returns:
        [B, n, n].

    Raises:
        ValueError: If the shapes of `diag` and `non_diag` do not match.
    """
    n = diag.shape[1]
    expected = diag.shape[0], n * (n - 1) // 2
    if non_diag.shape != expected:
        shape = tuple(non_diag.shape)
        raise ValueError(f"non_diag has shape {shape}, expected {expected} for a diag of shape {tuple(diag.shape)}")
    rows, columns = torch.tril_indices(n, n, offset=-1, device=diag.device)
    matrix = torch.diag_embed(diag)
    matrix[:, rows, columns] = non_diag
    return matrix
