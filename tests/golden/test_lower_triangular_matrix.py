from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like.functions.lower_triangular_matrix import (
    lower_triangular_matrix,
    set_batch_diagonal,
    set_batch_non_diagonal,
)


def test_entries_below_the_diagonal_are_filled_row_by_row() -> None:
    matrix = lower_triangular_matrix(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[4.0, 5.0, 6.0]]))
    assert matrix.tolist() == [[[1.0, 0.0, 0.0], [4.0, 2.0, 0.0], [5.0, 6.0, 3.0]]]


def test_gradients_reach_every_entry() -> None:
    diag, non_diag = torch.ones(2, 2, requires_grad=True), torch.ones(2, 1, requires_grad=True)
    lower_triangular_matrix(diag, non_diag).sum().backward()
    assert diag.grad is not None and non_diag.grad is not None
    assert diag.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert non_diag.grad.tolist() == [[1.0], [1.0]]


def test_wrong_number_of_entries_is_refused() -> None:
    with pytest.raises(ValueError, match=r"non_diag has shape \(1, 2\), expected \(1, 3\)"):
        lower_triangular_matrix(torch.ones(1, 3), torch.ones(1, 2))


@pytest.mark.parametrize("convert", [torch.from_numpy, lambda array: array])
def test_entries_of_tensors_and_arrays_are_set_in_place(convert: Callable[[Any], Any]) -> None:
    matrices = np.zeros((2, 3, 3))
    set_batch_non_diagonal(convert(matrices), convert(np.arange(6.0).reshape(2, 3)))
    set_batch_diagonal(convert(matrices), convert(np.array([[7.0, 8.0, 9.0]] * 2)))
    assert matrices.tolist() == [
        [[7.0, 0.0, 0.0], [0.0, 8.0, 0.0], [1.0, 2.0, 9.0]],
        [[7.0, 0.0, 0.0], [3.0, 8.0, 0.0], [4.0, 5.0, 9.0]],
    ]


@pytest.mark.parametrize("fill", [set_batch_diagonal, set_batch_non_diagonal])
def test_matrices_must_be_square(fill: Callable[[Any, Any], None]) -> None:
    with pytest.raises(ValueError, match=r"array has shape \(1, 2, 3\), expected square matrices"):
        fill(torch.zeros(1, 2, 3), 0.0)
