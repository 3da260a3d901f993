from collections.abc import Callable

import pytest
import torch
from torch.distributions import Beta, Distribution, Independent, MultivariateNormal, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform

from pfrl_like import distributions

MAKERS: dict[str, Callable[[torch.Tensor], Distribution]] = {
    "gaussian": lambda x: distributions.DiagonalGaussian(x, x.exp()),
    "gaussian of one scale": lambda x: distributions.DiagonalGaussian(x, x[0, :1].exp()),
    "clipped": lambda x: distributions.ClippedGaussian(x, x.exp()),
    "squashed": lambda x: distributions.SquashedGaussian(x, x.exp()),
    "categorical": distributions.Categorical,
    "masked": lambda x: distributions.MaskedCategorical(x, [True, False, True, True]),
    "product": lambda x: distributions.ProductOfCategoricals(x, [1, 3]),
    "delta": distributions.DeltaVector,
    "torch's gaussian": lambda x: Independent(Normal(x, x.exp()), 1),
    "torch's squashed": lambda x: TransformedDistribution(Independent(Normal(x, x.exp()), 1), [TanhTransform()]),
    "torch's categorical": lambda x: torch.distributions.Categorical(logits=x),
    "torch's categorical of probabilities": lambda x: torch.distributions.Categorical(probs=x.exp()),
    "torch's multivariate": lambda x: MultivariateNormal(x, torch.diag_embed(x.exp())),
    "torch's vector of points": lambda x: Independent(distributions.Delta(x), 1),
}
X = torch.tensor([[0.3, -1.0, 2.0, 0.1], [0.0, 0.5, 0.5, -4.0]])


def numbers(distribution: Distribution) -> list[torch.Tensor]:
    value = distributions.mode_of(distribution)
    found = [value]
    if not isinstance(getattr(distribution, "base_dist", None), distributions.Delta):
        found.append(distribution.log_prob(value))
    return found


@pytest.mark.parametrize("name", MAKERS)
def test_a_distribution_made_of_anothers_parameters_is_the_same(name: str) -> None:
    distribution = MAKERS[name](X)
    same = distributions.with_parameters(distribution, *distributions.parameters_of(distribution))
    assert isinstance(same, Distribution) and same.batch_shape == (2,)
    torch.testing.assert_close(numbers(same), numbers(distribution))
    rows = torch.tensor([1, 1, 0])
    some = distributions.rows_of(distribution, rows)
    assert some.batch_shape == (3,) and some.sample().shape[0] == 3
    torch.testing.assert_close(numbers(some), [x[rows] for x in numbers(distribution)])


@pytest.mark.parametrize("name", MAKERS)
def test_a_detached_copy_has_no_gradient_and_does_not_change(name: str) -> None:
    x = X.clone().requires_grad_()
    copy = distributions.detached(MAKERS[name](x))
    before = [number.clone() for number in numbers(copy)]
    assert not any(number.requires_grad for number in before)
    with torch.no_grad():
        x.add_(1)
    torch.testing.assert_close(numbers(copy), before, rtol=0, atol=0)


def test_parameters_have_a_row_for_each_state_even_if_the_scale_is_shared() -> None:
    loc, scale = distributions.parameters_of(distributions.DiagonalGaussian(X, torch.tensor([2.0])))
    assert loc.shape == scale.shape == (2, 4)


def test_other_distributions_are_refused() -> None:
    for function in (
        distributions.parameters_of,
        distributions.with_parameters,
        distributions.detached,
        lambda d: distributions.rows_of(d, [0]),
    ):
        with pytest.raises(TypeError, match="distribution is Beta, expected a Gaussian"):
            function(Beta(torch.ones(2), torch.ones(2)))
    with pytest.raises(TypeError, match="distribution is Tensor"):
        distributions.parameters_of(X)


def test_a_distribution_of_ones_own_says_what_its_parameters_are() -> None:
    class Own(Distribution):
        def __init__(self, x: torch.Tensor) -> None:
            self.x = x

        @property
        def params(self) -> tuple[torch.Tensor, ...]:
            return (self.x,)

        def with_params(self, x: torch.Tensor) -> "Own":
            return Own(x)

    assert not distributions.detached(Own(X.clone().requires_grad_())).x.requires_grad


@pytest.mark.parametrize("name", MAKERS)
def test_it_can_be_expanded(name: str) -> None:
    distribution = MAKERS[name](X)
    wide = distribution.expand((5, 2))
    assert wide.batch_shape == (5, 2) and wide.sample((3,)).shape[:3] == (3, 5, 2)
    torch.testing.assert_close([each[4] for each in numbers(wide)], numbers(distribution))


@pytest.mark.parametrize("name", sorted({*MAKERS} - {"delta", "torch's vector of points", "torch's squashed"}))
def test_two_questions_at_once_have_the_same_answers_and_gradients(name: str) -> None:
    results = []
    for at_once in (True, False):
        x = X.clone().requires_grad_()
        distribution, value = MAKERS[name](x), distributions.mode_of(MAKERS[name](X))
        found = [distribution.log_prob(value), distribution.entropy()]
        if at_once:
            found = [*distributions.log_prob_and_entropy(distribution, value)]
        if distribution.has_rsample:
            torch.manual_seed(0)
            sample = None if at_once else distribution.rsample()
            found += (
                distributions.rsample_with_log_prob(distribution)
                if at_once
                else (sample, distribution.log_prob(sample))
            )
        results.append([*found, *torch.autograd.grad(sum(each.square().sum() for each in found), x)])
    torch.testing.assert_close(*results)


def test_what_has_no_rsample_is_refused() -> None:
    with pytest.raises(TypeError, match="policy returns Categorical, whose samples have no gradient"):
        distributions.rsample_with_log_prob(distributions.Categorical(X))
