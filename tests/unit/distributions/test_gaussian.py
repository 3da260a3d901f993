"""Gaussians and points."""

import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like.distributions import Delta, DeltaVector, DiagonalGaussian, detached


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


def test_samples_are_the_location_and_only_rsample_has_a_gradient() -> None:
    loc = torch.tensor([1.0, 2.0], requires_grad=True)
    distribution = Delta(loc)
    assert distribution.sample((3,)).tolist() == [[1.0, 2.0]] * 3
    assert not distribution.sample().requires_grad
    distribution.rsample((3,)).sum().backward()
    assert loc.grad is not None
    assert loc.grad.tolist() == [3.0, 3.0]


def test_moments_and_mode() -> None:
    distribution = Delta(torch.tensor([1.0, 2.0]))
    assert distribution.mean.tolist() == distribution.mode.tolist() == [1.0, 2.0]
    assert distribution.variance.tolist() == distribution.stddev.tolist() == [0.0, 0.0]
    assert Delta(3.0).mean.item() == 3.0


def test_what_needs_a_density_is_refused() -> None:
    for distribution in (Delta(torch.zeros(2)), DeltaVector(torch.zeros(2))):
        for function in (lambda d: d.entropy(), lambda d: d.log_prob(torch.zeros(2))):
            with pytest.raises(RuntimeError, match="has no density"):
                function(distribution)


def test_a_location_that_is_not_finite_is_refused_if_asked() -> None:
    with pytest.raises(ValueError, match="loc"):
        Delta(torch.tensor([torch.nan]), validate_args=True)
