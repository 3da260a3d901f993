import pytest
import torch
from torch.distributions import Independent

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


def test_it_can_be_expanded() -> None:
    assert Delta(torch.tensor([1.0, 2.0])).expand((3, 2)).sample().tolist() == [[1.0, 2.0]] * 3
    independent = Independent(Delta(torch.zeros(4, 2)), 1).expand((5, 4))
    assert independent.sample().shape == (5, 4, 2)


def test_what_needs_a_density_is_refused() -> None:
    for distribution in (Delta(torch.zeros(2)), DeltaVector(torch.zeros(2))):
        for function in (lambda d: d.entropy(), lambda d: d.log_prob(torch.zeros(2))):
            with pytest.raises(RuntimeError, match="has no density"):
                function(distribution)


@pytest.mark.parametrize("sample_shape", [(), (3,)])
def test_a_vector_is_what_independent_makes_of_its_components(sample_shape: tuple[int, ...]) -> None:
    loc = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    ours, theirs = DeltaVector(loc), Independent(Delta(loc), 1)
    assert isinstance(ours, Independent) and isinstance(ours.base_dist, Delta)
    assert (ours.batch_shape, ours.event_shape) == (theirs.batch_shape, theirs.event_shape) == ((2,), (2,))
    for name in ("mean", "mode", "variance", "stddev"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    for method in ("sample", "rsample"):
        samples = [getattr(distribution, method)(sample_shape) for distribution in (ours, theirs)]
        assert torch.equal(*samples) and samples[0].requires_grad == samples[1].requires_grad == (method == "rsample")
    assert torch.equal(ours.expand((4, 2)).sample(), theirs.expand((4, 2)).sample())


def test_a_location_that_is_not_finite_is_refused_if_asked() -> None:
    with pytest.raises(ValueError, match="loc"):
        Delta(torch.tensor([torch.nan]), validate_args=True)
