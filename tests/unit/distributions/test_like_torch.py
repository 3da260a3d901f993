"""Our distributions answer, draw and learn as those of PyTorch do."""

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution, Independent, Normal, TransformedDistribution, kl_divergence
from torch.distributions.transforms import TanhTransform

from pfrl_like.distributions import Categorical, Delta, DeltaVector, DiagonalGaussian, SquashedGaussian, mode_of

Make = Callable[[Tensor], Distribution]
X = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -3.0]])
SCALES: dict[str, Any] = {
    "each": torch.tensor([[0.5, 1.0, 2.0], [0.1, 3.0, 1.0]]),
    "diagonal": torch.tensor([0.5, 1.0, 2.0]),
    "spherical": torch.tensor([0.7]),
    "scalar": torch.tensor(0.7),
    "number": 0.7,
}


def gaussians(scale: Any) -> tuple[Make, Make]:
    return lambda x: DiagonalGaussian(x, scale), lambda x: Independent(Normal(x, scale), 1)


def squashed(x: Tensor) -> Distribution:
    return TransformedDistribution(Independent(Normal(x, x.exp() / 2), 1), [TanhTransform(cache_size=1)])


#: Ours and PyTorch's of the same parameters.
PAIRS: dict[str, tuple[Make, Make]] = {
    "categorical": (Categorical, lambda x: torch.distributions.Categorical(logits=x)),
    **{f"gaussian, {name}": gaussians(scale) for name, scale in SCALES.items()},
    "gaussian": (lambda x: DiagonalGaussian(x, x.exp()), lambda x: Independent(Normal(x, x.exp()), 1)),
    "squashed": (lambda x: SquashedGaussian(x / 4, (x / 4).exp() / 2), lambda x: squashed(x / 4)),
    "points": (DeltaVector, lambda x: Independent(Delta(x), 1)),
}
EVERY_PAIR = pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
EVERY_SHAPE = pytest.mark.parametrize("x", [X, X[0]], ids=["rows", "one"])

ATTRIBUTES = ("batch_shape", "event_shape", "mean", "mode", "stddev", "variance", "logits", "probs")
ASKED: dict[str, Callable[[Distribution, Distribution, Tensor], Any]] = {
    **{name: lambda one, other, value, name=name: getattr(one, name) for name in ATTRIBUTES},
    "mode_of": lambda one, other, value: mode_of(one),
    "log_prob": lambda one, other, value: one.log_prob(value),
    "entropy": lambda one, other, value: one.entropy(),
    "divergence": lambda one, other, value: kl_divergence(one, other),
    "rsample": lambda one, other, value: one.rsample((3,)),
}


def answers(make: Make, x: Tensor, value: Tensor) -> dict[str, Any]:
    """What a distribution knows of itself, by name."""
    found = {}
    for name, ask in ASKED.items():
        torch.manual_seed(0)
        with contextlib.suppress(NotImplementedError, AttributeError, RuntimeError):
            found[name] = ask(make(x), make(-x), value)
    return found


@pytest.mark.representatives(5)
@EVERY_SHAPE
@EVERY_PAIR
def test_answers_and_their_gradients_are_those_of_torch(pair: tuple[Make, Make], x: Tensor) -> None:
    value, results = pair[1](x).sample((4,)), []
    for make in reversed(pair):
        leaf = x.clone().requires_grad_()
        found = answers(make, leaf, value)
        asked = results[0][0] if results else found
        assert asked.keys() <= found.keys()
        found = {name: found[name] for name in asked}
        sum(each.sum() for each in found.values() if torch.is_tensor(each) and each.requires_grad).backward()
        results.append((found, leaf.grad))
    torch.testing.assert_close(results[1], results[0], equal_nan=True)


@pytest.mark.parametrize("sample_shape", [(), (4,), (2, 3)])
@EVERY_SHAPE
@EVERY_PAIR
def test_samples_are_those_of_torch(pair: tuple[Make, Make], x: Tensor, sample_shape: tuple[int, ...]) -> None:
    samples = []
    for make in pair:
        torch.manual_seed(0)
        samples.append(make(x.clone().requires_grad_()).sample(sample_shape))
    torch.testing.assert_close(*samples)
    assert not samples[0].requires_grad


def test_the_divergence_from_torchs_gaussian_is_known() -> None:
    ours, theirs = (make(X) for make in PAIRS["gaussian"])
    other = Independent(Normal(-X, 2.0), 1)
    torch.testing.assert_close(kl_divergence(ours, other), kl_divergence(theirs, other))


def test_whoever_asks_is_told_that_it_is_torchs() -> None:
    distribution, points = DiagonalGaussian(X, 1.0), DeltaVector(X)
    for each, base in ((distribution, Normal), (points, Delta)):
        assert isinstance(each, Independent) and isinstance(each.base_dist, base)
    assert distribution.base_dist.loc is X and distribution.base_dist.scale.shape == X.shape
    assert distribution.reinterpreted_batch_ndims == 1
    assert distribution.has_rsample and not distribution.has_enumerate_support
    assert "loc: torch.Size([2, 3])" in repr(distribution)
    assert isinstance(SquashedGaussian(X, 1.0), Distribution) and isinstance(
        Categorical(X), torch.distributions.Categorical
    )
