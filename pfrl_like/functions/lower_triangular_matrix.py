"""Lower triangular matrices from their entries."""

from typing import Any

import torch
from torch import Tensor


def set_batch_diagonal(array: Any, diag_val: Any) -> None:
    """Set the diagonals of matrices, in place.

    Args:
        array: The matrices, a tensor or an array, [B, n, n].
        diag_val: The new diagonals, [B, n], or one value.

    Raises:
        ValueError: If the matrices are not square.
    """
    index = torch.arange(_size_of(array), device=array.device)
    array[:, index, index] = diag_val


def set_batch_non_diagonal(array: Any, non_diag_val: Any) -> None:
    """Set the entries below the diagonals of matrices, in place.

    Args:
        array: The matrices, a tensor or an array, [B, n, n].
        non_diag_val: The new entries, row by row, [B, n * (n - 1) / 2], or one value.

    Raises:
        ValueError: If the matrices are not square.
    """
    n = _size_of(array)
    rows, columns = torch.tril_indices(n, n, offset=-1, device=array.device)
    array[:, rows, columns] = non_diag_val


def _size_of(array: Any) -> int:
    _, n, n_columns = array.shape
    if n != n_columns:
        raise ValueError(f"array has shape {tuple(array.shape)}, expected square matrices [B, n, n]")
    return int(n)


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
    matrix = torch.diag_embed(diag)
    set_batch_non_diagonal(matrix, non_diag)
    return matrix
