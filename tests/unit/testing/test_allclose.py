"""`torch_assert_allclose` compares tensors, arrays and nests of them."""

import numpy as np
import pytest
import torch

from pfrl_like.testing import torch_assert_allclose


@pytest.mark.parametrize(
    "desired",
    [[1.0, 2.0], (1.0, 2.0), np.array([1.0, 2.0]), torch.tensor([1.0, 2.0]), [torch.tensor(1.0), np.float64(2.0)]],
)
def test_equal_numbers_pass_in_every_form(desired: object) -> None:
    torch_assert_allclose(torch.tensor([1.0, 2.0], requires_grad=True), desired)


def test_other_numbers_fail() -> None:
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        torch_assert_allclose([torch.tensor([1.0, 2.0])], [[1.0, 2.1]])


def test_tolerances_are_those_of_numpy() -> None:
    torch_assert_allclose(torch.tensor(1.0), 1.05, 0.1)
    torch_assert_allclose(torch.tensor(1.0), 1.05, atol=0.1)
    with pytest.raises(AssertionError):
        torch_assert_allclose(torch.tensor(1.0), 1.05, rtol=0.01)
