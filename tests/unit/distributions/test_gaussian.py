from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, kl_divergence

from pfrl_like.distributions import DiagonalGaussian, detached, log_prob_and_entropy, rsample_with_log_prob

LOC = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -3.0]])
VALUE = torch.tensor([[0.0, -1.0, 1.0], [4.0, 0.2, -3.5]])
SCALES = {
    "each": torch.tensor([[0.5, 1.0, 2.0], [0.1, 3.0, 1.0]]),
    "diagonal": torch.tensor([0.5, 1.0, 2.0]),
    "spherical": torch.tensor([0.7]),
    "scalar": torch.tensor(0.7),
    "number": 0.7,
}


def of_torch(loc: Tensor, scale: Any) -> Distribution:
    return Independent(Normal(loc, scale), 1)


@pytest.mark.parametrize("form", SCALES)
def test_it_is_the_gaussian_of_torch(form: str) -> None:
    ours, theirs = DiagonalGaussian(LOC, SCALES[form]), of_torch(LOC, SCALES[form])
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape) == ((2,), (3,))
    for name in ("mean", "mode", "stddev", "variance"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name))
    for value in (VALUE, VALUE.expand(4, 2, 3)):
        torch.testing.assert_close(ours.log_prob(value), theirs.log_prob(value))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    divergence = kl_divergence(theirs, of_torch(VALUE, 2.0))
    for other in (DiagonalGaussian(VALUE, 2.0), of_torch(VALUE, 2.0)):
        torch.testing.assert_close(kl_divergence(ours, other), divergence)


@pytest.mark.parametrize("form", SCALES)
@pytest.mark.parametrize("sample_shape", [(), (5,)])
def test_it_draws_the_random_numbers_of_torch(form: str, sample_shape: tuple[int, ...]) -> None:
    for method in ("sample", "rsample"):
        samples = []
        for distribution in (DiagonalGaussian(LOC, SCALES[form]), of_torch(LOC, SCALES[form])):
            torch.manual_seed(0)
            samples.append(getattr(distribution, method)(sample_shape))
        torch.testing.assert_close(*samples)
        assert samples[0].shape == (*sample_shape, 2, 3)


def test_whoever_asks_is_told_that_it_is_torchs() -> None:
    distribution = DiagonalGaussian(LOC, 1.0)
    assert isinstance(distribution, Independent) and isinstance(distribution.base_dist, Normal)
    assert distribution.base_dist.loc is LOC and distribution.base_dist.scale.shape == LOC.shape
    assert distribution.reinterpreted_batch_ndims == 1
    assert distribution.has_rsample and not distribution.has_enumerate_support
    assert "loc: torch.Size([2, 3])" in repr(distribution)


def test_gradients_are_those_of_torch() -> None:
    gradients = []
    for cls in (DiagonalGaussian, of_torch):
        loc, scale = LOC.clone().requires_grad_(), SCALES["diagonal"].clone().requires_grad_()  # type: ignore[union-attr]
        torch.manual_seed(0)
        distribution = cls(loc, scale)
        (
            distribution.log_prob(VALUE) + distribution.entropy() + distribution.rsample().square().sum(1)
        ).sum().backward()
        gradients.append((loc.grad, scale.grad))
    torch.testing.assert_close(*gradients)


def test_only_sample_stops_the_gradient() -> None:
    distribution = DiagonalGaussian(LOC.clone().requires_grad_(), 1.0)
    assert distribution.rsample().requires_grad and not distribution.sample().requires_grad


@pytest.mark.parametrize("form", SCALES)
def test_two_questions_at_once_have_the_same_answers(form: str) -> None:
    distribution = DiagonalGaussian(LOC, SCALES[form])
    log_prob, entropy = log_prob_and_entropy(distribution, VALUE)
    assert torch.equal(log_prob, distribution.log_prob(VALUE)) and torch.equal(entropy, distribution.entropy())
    torch.manual_seed(0)
    sample, log_prob = rsample_with_log_prob(distribution)
    torch.manual_seed(0)
    assert torch.equal(sample, distribution.rsample())
    torch.testing.assert_close(log_prob, distribution.log_prob(sample))


def test_a_sample_and_its_log_probability_have_the_gradients_of_both() -> None:
    gradients = []
    for function in (rsample_with_log_prob, lambda d: ((x := d.rsample()), d.log_prob(x))):
        loc, scale = LOC.clone().requires_grad_(), SCALES["each"].clone().requires_grad_()  # type: ignore[union-attr]
        torch.manual_seed(0)
        sample, log_prob = function(DiagonalGaussian(loc, scale))
        (sample.square().sum() + log_prob.sum()).backward()
        gradients.append((loc.grad, scale.grad))
    torch.testing.assert_close(*gradients)


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


def test_it_can_be_expanded() -> None:
    wide = DiagonalGaussian(LOC, SCALES["diagonal"]).expand((4, 2))
    assert (wide.batch_shape, wide.event_shape) == ((4, 2), (3,))
    torch.testing.assert_close(wide.log_prob(VALUE)[3], DiagonalGaussian(LOC, SCALES["diagonal"]).log_prob(VALUE))


def test_a_mean_for_many_scales_is_repeated() -> None:
    ours, theirs = DiagonalGaussian(LOC[0], SCALES["each"]), of_torch(LOC[0], SCALES["each"])
    assert ours.batch_shape == theirs.batch_shape == (2,)
    torch.testing.assert_close(ours.log_prob(VALUE), theirs.log_prob(VALUE))


def test_a_scalar_mean_is_refused() -> None:
    with pytest.raises(ValueError, match=r"loc is a scalar, expected a tensor \[..., n\]"):
        DiagonalGaussian(torch.tensor(0.0), 1.0)
