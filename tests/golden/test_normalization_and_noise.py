"""EmpiricalNormalization, noisy layers, dueling streams and bounds against numbers worked out by hand."""

import math

import pytest
import torch
from torch import nn

from pfrl_like.functions import bound_by_tanh
from pfrl_like.nn import EmpiricalNormalization, FactorizedNoisyLinear
from pfrl_like.q_functions.dueling_dqn import dueling


def test_two_batches_have_the_moments_of_all_values() -> None:
    normalize = EmpiricalNormalization(1, eps=1.0)
    normalize.experience(torch.tensor([[0.0], [2.0]]))  # mean 1, variance 1
    assert (normalize.mean.item(), normalize.std.item()) == (1.0, 1.0)
    normalize.experience(torch.tensor([[4.0]]))
    # mean (0 + 2 + 4) / 3 = 2, variance (4 + 0 + 4) / 3 = 8 / 3
    assert normalize.mean.item() == pytest.approx(2.0)
    assert normalize.std.item() == pytest.approx(math.sqrt(8 / 3))
    # (5 - 2) / sqrt(8 / 3 + 1)
    assert normalize(torch.tensor([[5.0]]), update=False).item() == pytest.approx(3 / math.sqrt(11 / 3))
    assert normalize.inverse(torch.tensor([[3 / math.sqrt(11 / 3)]])).item() == pytest.approx(5.0)


def test_noise_enters_weights_and_bias_by_its_signed_root(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = FactorizedNoisyLinear(nn.Linear(2, 1))
    with torch.no_grad():
        layer.mu.weight.copy_(torch.tensor([[1.0, 2.0]]))
        layer.mu.bias.fill_(3.0)
        layer.sigma.weight.copy_(torch.tensor([[0.5, 0.25]]))
        layer.sigma.bias.fill_(0.125)
    monkeypatch.setattr(torch, "randn", lambda *size, **_: torch.tensor([4.0, -9.0, 16.0]))
    # f(4) = 2, f(-9) = -3 for the inputs, f(16) = 4 for the output
    # weights 1 + 0.5 * 4 * 2 = 5 and 2 + 0.25 * 4 * -3 = -1, bias 3 + 0.125 * 4 = 3.5
    # 5 * 1 - 1 * 10 + 3.5 = -1.5
    assert layer(torch.tensor([[1.0, 10.0]])).tolist() == [[-1.5]]


def test_dueling_takes_the_mean_off_the_advantages() -> None:
    # mean 2: 10 + (1 - 2), 10 + (0 - 2), 10 + (5 - 2)
    assert dueling(torch.tensor([[10.0]]), torch.tensor([[1.0, 0.0, 5.0]])).tolist() == [[9.0, 8.0, 13.0]]


def test_dueling_of_atoms_takes_the_mean_of_each_atom() -> None:
    value = torch.tensor([[[1.0, 2.0]]])
    advantage = torch.tensor([[[0.0, 4.0], [2.0, 0.0]]])
    # atom 0: mean 1, so 1 - 1 and 1 + 1; atom 1: mean 2, so 2 + 2 and 2 - 2
    assert dueling(value, advantage).tolist() == [[[0.0, 4.0], [2.0, 0.0]]]


def test_bounds_are_reached_at_infinity_and_the_middle_at_zero() -> None:
    low, high = torch.tensor([-1.0, 0.0]), torch.tensor([3.0, 1.0])
    x = torch.tensor([[0.0, math.inf], [-math.inf, math.atanh(0.5)]])
    # atanh(0.5): 0.5 * (1 - 0) / 2 + (1 + 0) / 2 = 0.75
    torch.testing.assert_close(bound_by_tanh(x, low, high), torch.tensor([[1.0, 1.0], [-1.0, 0.75]]))
