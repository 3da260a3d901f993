import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like.distributions import DiagonalGaussian, detached


def test_a_logarithm_of_the_scale_that_is_at_hand_is_used() -> None:
    log_scale = torch.tensor([[-200.0]])  # whose exponential is 0
    distribution = DiagonalGaussian(torch.zeros(1, 1), log_scale.exp(), log_scale)
    assert distribution.entropy().item() == pytest.approx(-200 + 1.4189385)


def test_the_second_derivative_of_the_divergence_is_the_fisher_information() -> None:
    loc, scale = torch.tensor([[0.5]]).requires_grad_(), torch.tensor([[0.5]]).requires_grad_()
    distribution = DiagonalGaussian(loc, scale)
    divergence = kl_divergence(detached(distribution), distribution).sum()
    first = torch.autograd.grad(divergence, (loc, scale), create_graph=True)
    assert [g.item() for g in first] == [0, 0]
    second = [torch.autograd.grad(g, x, retain_graph=True)[0].item() for g, x in zip(first, (loc, scale), strict=True)]
    assert second == pytest.approx([4, 8])  # 1 / scale**2 and 2 / scale**2


def test_a_scalar_mean_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loc is a scalar, expected a tensor \[..., n\]"):
        DiagonalGaussian(torch.tensor(0.0), 1.0)
