"""Heads, distributions and returns compute on a GPU what they compute on the CPU."""

from typing import Any

import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like import policies as heads
from pfrl_like.distributions import detached, log_prob_and_entropy, masked, mode_of, rsample_with_log_prob
from pfrl_like.functions import gae, lambda_returns, retrace, vtrace

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
X = torch.linspace(-2, 2, 24).reshape(4, 6)
MASK = torch.tensor([True, False, True, True, False, True])


CONTINUOUS = [
    heads.GaussianHeadWithDiagonalCovariance(), heads.GaussianHeadWithStateIndependentCovariance(6, "diagonal"),
    heads.GaussianHeadWithFixedCovariance(0.5), heads.GaussianHeadWithFixedCovariance(torch.tensor(0.5)),
    heads.SquashedGaussianHead(),
]  # fmt: skip
DISCRETE = [heads.SoftmaxCategoricalHead(), heads.MultiCategoricalHead([2, 4]), heads.MultiCategoricalHead([3, 3])]


@pytest.mark.parametrize("head", [*CONTINUOUS, *DISCRETE])
def test_heads(head: Any) -> None:
    found, discrete = [], head in DISCRETE
    for device in ("cpu", "cuda"):
        distribution, other = (head.to(device)(X.to(device) + i) for i in (0, 1))
        if discrete:
            distribution, other = masked(distribution, MASK), distribution
        value = mode_of(distribution) if discrete else torch.full(distribution.event_shape, 0.5, device=device)
        divergence = kl_divergence(detached(distribution), other)
        answers = [mode_of(distribution), divergence, *log_prob_and_entropy(distribution, value)]
        found.append([answer.cpu() for answer in answers])
        assert distribution.sample().device.type == device
        if not discrete:
            assert {each.device.type for each in rsample_with_log_prob(distribution)} == {device}
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_points() -> None:
    assert heads.DeterministicHead()(X.cuda()).sample().device.type == "cuda"


def test_returns() -> None:
    found = []
    for device in ("cpu", "cuda"):
        x, continues = X.to(device), MASK.expand(4, 6).to(device)
        returns = (gae(x, x, x, x, continues, 0.9), lambda_returns(x, x, x, continues, 0.9))
        returns += (*vtrace(x, x, x, x, x.abs(), continues), retrace(x, x, x, x, x.abs(), continues))
        found.append([each.cpu() for each in returns])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
