import math

import pytest
import torch

from pfrl_like.distributions import DiagonalGaussian, SquashedGaussian, rsample_with_log_prob

LOC = torch.tensor([[0.5, -1.0], [0.0, 0.3]])
SCALE = torch.tensor([[0.5, 1.0], [0.2, 2.0]])


def test_the_density_integrates_to_one() -> None:
    x = torch.linspace(-1, 1, 20001, dtype=torch.float64)
    distribution = SquashedGaussian(torch.tensor([0.3], dtype=torch.float64), 0.8)
    density = distribution.log_prob(x.unsqueeze(1)).exp()
    assert torch.trapezoid(density, x).item() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("value", [1.0, -1.0, 1.5, -7.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_at_the_bounds_and_beyond_count_as_the_last_one_before(value: float, dtype: torch.dtype) -> None:
    loc, scale = torch.zeros(1, dtype=dtype, requires_grad=True), torch.ones(1, dtype=dtype, requires_grad=True)
    at_bound = SquashedGaussian(loc, scale).log_prob(torch.tensor([value], dtype=dtype))
    last = torch.nextafter(torch.tensor([math.copysign(1, value)], dtype=dtype), torch.zeros(1, dtype=dtype))
    assert torch.equal(at_bound, SquashedGaussian(loc, scale).log_prob(last))
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(at_bound, (loc, scale)))


def test_a_samples_own_log_probability_is_exact_at_the_bound() -> None:
    distribution = SquashedGaussian(torch.tensor([20.0]), 0.5)
    for draw in (distribution.sample, distribution.rsample):
        sample = draw()
        assert sample.item() == 1
        # The Gaussian's own is at most -log(1/2) - 0.92; the slope's is 2 * 20 - log 4 within a few scales.
        assert 30 < distribution.log_prob(sample).item() < 50
        assert distribution.log_prob(sample.clone()).item() < -200  # told nothing, it takes the last number before 1


def test_a_sample_that_was_changed_is_no_longer_its_own() -> None:
    distribution = SquashedGaussian(torch.zeros(1), 1.0)
    sample = distribution.sample().fill_(0.6)
    torch.testing.assert_close(distribution.log_prob(sample), distribution.log_prob(torch.tensor([0.6])))


def test_sampling_in_inference_mode_works() -> None:
    with torch.inference_mode():
        distribution = SquashedGaussian(LOC, SCALE)
        sample = distribution.sample()
        torch.testing.assert_close(distribution.log_prob(sample), distribution.log_prob(sample.clone()))


def test_gradients_are_finite_where_tanh_has_none() -> None:
    loc = torch.tensor([100.0, -100.0, 9.0]).requires_grad_()
    scale = torch.full((3,), 1e-3).requires_grad_()
    sample, log_prob = rsample_with_log_prob(SquashedGaussian(loc, scale))
    (sample.sum() + log_prob).backward()
    assert loc.grad is not None and scale.grad is not None
    # d(-log(1 - tanh(x)**2))/dx = 2 tanh(x), however large x is.
    assert loc.grad.tolist() == pytest.approx([2, -2, 2], abs=1e-3)
    assert torch.isfinite(scale.grad).all()


@pytest.mark.parametrize(("scale", "error"), [(0.01, 1e-5), (0.5, 1e-5), (2.0, 1e-5), (math.exp(2), 2e-2)])
def test_entropy_mean_and_variance_are_those_of_a_fine_sum(scale: float, error: float) -> None:
    loc = torch.tensor([[-8.0], [-1.0], [0.0], [0.4], [3.0]], dtype=torch.float64)
    distribution = SquashedGaussian(loc, scale)
    z = torch.linspace(-9, 9, 30001, dtype=torch.float64)
    weight, x = torch.softmax(-z * z / 2, 0), loc + scale * z
    log_slope = math.log(4) - 2 * x.abs() - 2 * torch.exp(-2 * x.abs()).log1p()
    expected = DiagonalGaussian(loc, scale).entropy() + log_slope @ weight
    torch.testing.assert_close(distribution.entropy(), expected, rtol=0, atol=error)
    mean = (x.tanh() @ weight).unsqueeze(1)
    torch.testing.assert_close(distribution.mean, mean, rtol=0, atol=error)
    variance = ((x.tanh() - mean).square() @ weight).unsqueeze(1)
    torch.testing.assert_close(distribution.variance, variance, rtol=0, atol=error)


def test_entropy_has_the_gradient_of_its_differences() -> None:
    loc = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.9], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda loc, scale: SquashedGaussian(loc, scale).entropy(), (loc, scale))
