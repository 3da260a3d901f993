import pytest
import torch
from torch import nn

from pfrl_like.utils import clip_l2_grad_norm_


def parameter(gradient: list[float]) -> nn.Parameter:
    made = nn.Parameter(torch.zeros(len(gradient)))
    made.grad = torch.tensor(gradient)
    return made


def test_gradients_are_scaled_together() -> None:
    first, second, without = parameter([3.0]), parameter([0.0, 4.0]), nn.Parameter(torch.zeros(1))
    assert clip_l2_grad_norm_([first, second, without], 1.0) == 5.0  # sqrt(3**2 + 4**2)
    torch.testing.assert_close(first.grad, torch.tensor([0.6]))
    torch.testing.assert_close(second.grad, torch.tensor([0.0, 0.8]))
    assert without.grad is None


@pytest.mark.parametrize("max_norm", [5.0, 6])
def test_gradients_that_are_small_enough_stay(max_norm: float) -> None:
    alone = parameter([3.0, 4.0])
    assert clip_l2_grad_norm_(alone, max_norm) == 5.0
    torch.testing.assert_close(alone.grad, torch.tensor([3.0, 4.0]))


def test_without_parameters_the_norm_is_zero() -> None:
    assert clip_l2_grad_norm_([], 1.0) == 0.0
