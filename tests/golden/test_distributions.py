"""Log-probabilities, entropies and divergences of policies, worked out by hand."""

import math

import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like import distributions as own

LOG_2, LOG_3, LOG_4 = math.log(2), math.log(3), math.log(4)
C = math.log(2 * math.pi) / 2


def test_gaussian() -> None:
    # Components N(1, 2) at 5 and N(0, 1/2) at 1: both two standard deviations away, and 2 * 1/2 = 1.
    # log p = -2 - 2 - log 2 - log 1/2 - 2C; entropy = 2 (1/2 + C) + log 2 + log 1/2
    distribution = own.DiagonalGaussian(torch.tensor([[1.0, 0.0]]), torch.tensor([2.0, 0.5]))
    assert distribution.log_prob(torch.tensor([[5.0, 1.0]])).item() == pytest.approx(-4 - 2 * C)
    assert distribution.entropy().item() == pytest.approx(1 + 2 * C)
    # To N(0, 1) in both: (1 + 4 - 1 - log 4)/2 + (0 + 1/4 - 1 + log 4)/2 = (4 - 3/4)/2
    standard = own.DiagonalGaussian(torch.zeros(1, 2), 1.0)
    assert kl_divergence(distribution, standard).item() == pytest.approx(1.625)
    # From it: ((0 - 1)/2)**2 = 1/4, ratios 1/4 and 4: (1/4 + 1/4 - 1 + log 4)/2 + (4 - 1 - log 4)/2 = 2.5/2
    assert kl_divergence(standard, distribution).item() == pytest.approx(1.25)


def test_squashed_gaussian() -> None:
    # At tanh(0) the slope is 1; at tanh(log 2) = (4 - 1)/(4 + 1) = 3/5 it is 1 - 9/25 = 16/25.
    distribution = own.SquashedGaussian(torch.zeros(1), 1.0)
    assert distribution.log_prob(torch.zeros(1)).item() == pytest.approx(-C)
    expected = -(LOG_2**2) / 2 - C - math.log(16 / 25)
    assert distribution.log_prob(torch.tensor([0.6])).item() == pytest.approx(expected)
    # Far out, at x = 50: log(1 - tanh(x)**2) = log 4 - 2x, and the sample is 50 scales of 0 away from the mean.
    far = own.SquashedGaussian(torch.tensor([50.0]), 1.0)
    assert far.mode.item() == 1
    torch.manual_seed(0)
    noise = torch.randn(1).item()
    torch.manual_seed(0)
    value, log_prob = far.rsample_with_log_prob()
    assert value.item() == 1
    assert log_prob.item() == pytest.approx(-(noise**2) / 2 - C - (LOG_4 - 2 * (50 + noise)), rel=1e-6)


def test_categorical() -> None:
    # Odds 1 : 2 : 1, given as logits that are 7 too large.
    distribution = own.Categorical(torch.tensor([[7.0, 7 + LOG_2, 7.0]]))
    assert distribution.probs[0].tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert distribution.log_prob(torch.tensor([1])).item() == pytest.approx(-LOG_2)
    # 1/2 * log 4 + 1/2 * log 2
    assert distribution.entropy().item() == pytest.approx(1.5 * LOG_2)
    # To the uniform one: log 3 - entropy
    assert kl_divergence(distribution, own.Categorical(torch.zeros(1, 3))).item() == pytest.approx(LOG_3 - 1.5 * LOG_2)


def test_masked_categorical() -> None:
    # Odds 1 : 2 : 1 without the first one: 2/3 and 1/3. Entropy: 2/3 log 3/2 + 1/3 log 3 = log 3 - 2/3 log 2
    distribution = own.MaskedCategorical(torch.tensor([[0.0, LOG_2, 0.0]]), torch.tensor([[False, True, True]]))
    assert distribution.probs[0].tolist() == pytest.approx([0, 2 / 3, 1 / 3])
    assert distribution.log_prob(torch.tensor([2])).item() == pytest.approx(-LOG_3)
    assert distribution.entropy().item() == pytest.approx(LOG_3 - 2 / 3 * LOG_2)
    # To odds 1 : 2 : 1 over all: 2/3 log(2/3 / 1/2) + 1/3 log(1/3 / 1/4) = log 4/3
    whole = own.Categorical(torch.tensor([[0.0, LOG_2, 0.0]]))
    assert kl_divergence(distribution, whole).item() == pytest.approx(math.log(4 / 3))


def test_product_of_categoricals() -> None:
    # 1 : 1, and 1 : 2 : 1. log p of (0, 2): log 1/2 + log 1/4. Entropy: log 2 + 3/2 log 2
    distribution = own.ProductOfCategoricals(torch.tensor([[5.0, 5.0, 0.0, LOG_2, 0.0]]), [2, 3])
    assert distribution.log_prob(torch.tensor([[0, 2]])).item() == pytest.approx(-3 * LOG_2)
    assert distribution.entropy().item() == pytest.approx(2.5 * LOG_2)
    assert distribution.masked([0, 1, 1, 0, 1]).entropy().item() == pytest.approx(LOG_2)
    uniform = own.ProductOfCategoricals(torch.zeros(1, 5), [2, 3])
    assert kl_divergence(distribution, uniform).item() == pytest.approx(LOG_3 - 1.5 * LOG_2)
