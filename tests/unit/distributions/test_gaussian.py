"""Gaussians, squashed ones, and points."""

import math

import pytest
import torch
from torch.distributions import kl_divergence

from pfrl_like import distributions


def test_a_logarithm_of_the_scale_that_is_at_hand_is_used() -> None:
    log_scale = torch.tensor([[-200.0]])  # whose exponential is 0
    distribution = distributions.DiagonalGaussian(torch.zeros(1, 1), log_scale.exp(), log_scale)
    assert distribution.entropy().item() == pytest.approx(-200 + 1.4189385)


def test_the_second_derivative_of_the_divergence_is_the_fisher_information() -> None:
    loc, scale = torch.tensor([[0.5]]).requires_grad_(), torch.tensor([[0.5]]).requires_grad_()
    distribution = distributions.DiagonalGaussian(loc, scale)
    divergence = kl_divergence(distributions.detached(distribution), distribution).sum()
    first = torch.autograd.grad(divergence, (loc, scale), create_graph=True)
    assert [g.item() for g in first] == [0, 0]
    second = [torch.autograd.grad(g, x, retain_graph=True)[0].item() for g, x in zip(first, (loc, scale), strict=True)]
    assert second == pytest.approx([4, 8])  # 1 / scale**2 and 2 / scale**2


def test_samples_of_a_clipped_gaussian_are_in_their_interval_and_its_density_is_that_before_clipping() -> None:
    loc, scale = torch.tensor([[0.5, -0.9]]), torch.tensor([[2.0, 1.0]])
    clipped, whole = (kind(loc, scale) for kind in (distributions.ClippedGaussian, distributions.DiagonalGaussian))
    samples = {}
    for each in (clipped, whole):
        torch.manual_seed(0)
        samples[each] = each.sample((50,))
    assert torch.equal(samples[clipped], samples[whole].clamp(-1, 1))
    sample, log_prob = clipped.expand((3,)).rsample_with_log_prob()
    assert (sample.abs() <= 1).all() and torch.equal(log_prob, whole.log_prob(sample))
    assert torch.equal(clipped.mode, loc)


def test_a_scalar_mean_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loc is a scalar, expected a tensor \[..., n\]"):
        distributions.DiagonalGaussian(torch.tensor(0.0), 1.0)


def test_samples_are_the_location_and_only_rsample_has_a_gradient() -> None:
    loc = torch.tensor([1.0, 2.0], requires_grad=True)
    distribution = distributions.Delta(loc)
    assert distribution.sample((3,)).tolist() == [[1.0, 2.0]] * 3
    assert not distribution.sample().requires_grad
    distribution.rsample((3,)).sum().backward()
    assert loc.grad is not None
    assert loc.grad.tolist() == [3.0, 3.0]


def test_moments_and_mode() -> None:
    distribution = distributions.Delta(torch.tensor([1.0, 2.0]))
    assert distribution.mean.tolist() == distribution.mode.tolist() == [1.0, 2.0]
    assert distribution.variance.tolist() == distribution.stddev.tolist() == [0.0, 0.0]
    assert distributions.Delta(3.0).mean.item() == 3.0


def test_what_needs_a_density_is_refused() -> None:
    for distribution in (distributions.Delta(torch.zeros(2)), distributions.DeltaVector(torch.zeros(2))):
        for function in (lambda d: d.entropy(), lambda d: d.log_prob(torch.zeros(2))):
            with pytest.raises(RuntimeError, match="has no density"):
                function(distribution)


def test_a_location_that_is_not_finite_is_refused_if_asked() -> None:
    with pytest.raises(ValueError, match="loc"):
        distributions.Delta(torch.tensor([torch.nan]), validate_args=True)


LOC = torch.tensor([[0.5, -1.0], [0.0, 0.3]])
SCALE = torch.tensor([[0.5, 1.0], [0.2, 2.0]])


def test_the_density_integrates_to_one() -> None:
    x = torch.linspace(-1, 1, 20001, dtype=torch.float64)
    distribution = distributions.SquashedGaussian(torch.tensor([0.3], dtype=torch.float64), 0.8)
    density = distribution.log_prob(x.unsqueeze(1)).exp()
    assert torch.trapezoid(density, x).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("value", [1.0, -1.0, 1.5, -7.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_at_the_bounds_and_beyond_count_as_the_last_one_before(value: float, dtype: torch.dtype) -> None:
    loc, scale = torch.zeros(1, dtype=dtype, requires_grad=True), torch.ones(1, dtype=dtype, requires_grad=True)
    at_bound = distributions.SquashedGaussian(loc, scale).log_prob(torch.tensor([value], dtype=dtype))
    last = torch.nextafter(torch.tensor([math.copysign(1, value)], dtype=dtype), torch.zeros(1, dtype=dtype))
    assert torch.equal(at_bound, distributions.SquashedGaussian(loc, scale).log_prob(last))
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(at_bound, (loc, scale)))


def test_a_samples_own_log_probability_is_exact_at_the_bound() -> None:
    distribution = distributions.SquashedGaussian(torch.tensor([20.0]), 0.5)
    for draw in (distribution.sample, distribution.rsample):
        sample = draw()
        assert sample.item() == 1
        # The Gaussian's own is at most -log(1/2) - 0.92; the slope's is 2 * 20 - log 4 within a few scales.
        assert 30 < distribution.log_prob(sample).item() < 50
        assert distribution.log_prob(sample.clone()).item() < -200  # told nothing, it takes the last number before 1


def test_a_sample_that_was_changed_is_no_longer_its_own() -> None:
    distribution = distributions.SquashedGaussian(torch.zeros(1), 1.0)
    sample = distribution.sample().fill_(0.6)
    torch.testing.assert_close(distribution.log_prob(sample), distribution.log_prob(torch.tensor([0.6])))


def test_sampling_in_inference_mode_works() -> None:
    with torch.inference_mode():
        distribution = distributions.SquashedGaussian(LOC, SCALE)
        sample = distribution.sample()
        torch.testing.assert_close(distribution.log_prob(sample), distribution.log_prob(sample.clone()))


def test_gradients_are_finite_where_tanh_has_none() -> None:
    loc = torch.tensor([100.0, -100.0, 9.0]).requires_grad_()
    scale = torch.full((3,), 1e-3).requires_grad_()
    sample, log_prob = distributions.rsample_with_log_prob(distributions.SquashedGaussian(loc, scale))
    (sample.sum() + log_prob).backward()
    assert loc.grad is not None and scale.grad is not None
    # d(-log(1 - tanh(x)**2))/dx = 2 tanh(x), however large x is.
    assert loc.grad.tolist() == pytest.approx([2, -2, 2], abs=1e-3)
    assert torch.isfinite(scale.grad).all()


@pytest.mark.parametrize(("scale", "error"), [(0.01, 1e-5), (0.5, 1e-5), (2.0, 1e-5), (math.exp(2), 2e-2)])
def test_entropy_mean_and_variance_are_those_of_a_fine_sum(scale: float, error: float) -> None:
    loc = torch.tensor([[-8.0], [-1.0], [0.0], [0.4], [3.0]], dtype=torch.float64)
    distribution = distributions.SquashedGaussian(loc, scale)
    z = torch.linspace(-9, 9, 30001, dtype=torch.float64)
    weight, x = torch.softmax(-z * z / 2, 0), loc + scale * z
    log_slope = math.log(4) - 2 * x.abs() - 2 * torch.exp(-2 * x.abs()).log1p()
    expected = distributions.DiagonalGaussian(loc, scale).entropy() + log_slope @ weight
    torch.testing.assert_close(distribution.entropy(), expected, rtol=0, atol=error)
    mean = (x.tanh() @ weight).unsqueeze(1)
    torch.testing.assert_close(distribution.mean, mean, rtol=0, atol=error)
    variance = ((x.tanh() - mean).square() @ weight).unsqueeze(1)
    torch.testing.assert_close(distribution.variance, variance, rtol=0, atol=error)


def test_entropy_has_the_gradient_of_its_differences() -> None:
    loc = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *given: distributions.SquashedGaussian(*given).entropy(), (loc, scale))
