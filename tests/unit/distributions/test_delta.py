import pytest
import torch

from pfrl_like.distributions import Delta, DeltaVector


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
