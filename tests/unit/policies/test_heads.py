"""Heads of policies."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Distribution, Independent, Normal

from pfrl_like import policies as own
from pfrl_like.policy import Policy
from pfrl_like.utils.contexts import reads_training

HEADS: dict[str, tuple[nn.Module, int]] = {  # with the size of its input
    "state-independent": (own.GaussianHeadWithStateIndependentCovariance(2), 2),
    "diagonal": (own.GaussianHeadWithDiagonalCovariance(), 4),
    "fixed": (own.GaussianHeadWithFixedCovariance(), 2),
    "deterministic": (own.DeterministicHead(), 2),
    "squashed": (own.SquashedGaussianHead(), 4),
    "softmax": (own.SoftmaxCategoricalHead(), 3),
    "multi": (own.MultiCategoricalHead([2, 3]), 5),
}
MEAN = torch.tensor([[1.0, -2.0], [0.0, 3.0]])
ROOT_LOG_2 = 0.6931472**0.5  # softplus(0) = log 2 is a variance


@pytest.mark.parametrize("name", HEADS)
def test_every_head_gives_a_distribution_of_a_row_each(name: str) -> None:
    head, size = HEADS[name]
    distribution = head(torch.zeros(5, size))
    assert isinstance(distribution, Distribution) and distribution.batch_shape == (5,)
    assert not reads_training(head)
    stacked = head(torch.zeros(3, 5, size))
    assert stacked.batch_shape == (3, 5) and stacked.sample().shape[:2] == (3, 5)


@pytest.mark.parametrize(("var_type", "size"), [("spherical", 1), ("diagonal", 2)])
def test_the_variance_is_a_parameter(var_type: str, size: int) -> None:
    head = own.GaussianHeadWithStateIndependentCovariance(2, var_type)
    assert [(name, p.shape) for name, p in head.named_parameters()] == [("var_param", (size,))]
    distribution = head(MEAN)
    assert torch.equal(distribution.mean, MEAN)
    torch.testing.assert_close(distribution.stddev, torch.full((2, 2), ROOT_LOG_2))
    distribution.entropy().sum().backward()
    assert head.var_param.grad is not None and (head.var_param.grad > 0).all()


def test_the_variance_has_a_function_and_a_start() -> None:
    head = own.GaussianHeadWithStateIndependentCovariance(2, "diagonal", torch.exp, np.log([4.0, 9.0]))  # type: ignore[arg-type]
    torch.testing.assert_close(head(MEAN).stddev, torch.tensor([[2.0, 3.0], [2.0, 3.0]]))
    of_log_scale = own.GaussianHeadWithStateIndependentCovariance(
        2, "diagonal", own.variance_of_log_scale, np.log([4.0, 9.0])
    )  # type: ignore[arg-type]
    torch.testing.assert_close(of_log_scale(torch.zeros(1, 2)).stddev, torch.tensor([[4.0, 9.0]]))
    one = own.GaussianHeadWithStateIndependentCovariance(2, var_func=torch.exp, var_param_init=np.log(4.0))
    torch.testing.assert_close(one(MEAN).stddev, torch.full((2, 2), 2.0))


def test_the_second_half_makes_variances() -> None:
    distribution = own.GaussianHeadWithDiagonalCovariance()(torch.cat([MEAN, torch.zeros(2, 2)], 1))
    assert torch.equal(distribution.mean, MEAN)
    torch.testing.assert_close(distribution.stddev, torch.full((2, 2), ROOT_LOG_2))
    squares = own.GaussianHeadWithDiagonalCovariance(var_func=torch.square)(torch.cat([MEAN, MEAN + 5], 1))
    torch.testing.assert_close(squares.stddev, MEAN + 5)


def test_the_fixed_scale() -> None:
    assert torch.equal(own.GaussianHeadWithFixedCovariance()(MEAN).stddev, torch.ones(2, 2))
    for scale in (0.5, torch.tensor([0.5, 0.5])):
        head = own.GaussianHeadWithFixedCovariance(scale)
        assert torch.equal(head(MEAN).stddev, torch.full((2, 2), 0.5))
        assert head.scale is scale and not list(head.state_dict())


@pytest.mark.parametrize("name", ["state-independent", "diagonal", "fixed"])
def test_gaussian_heads_give_what_pfrls_users_take_apart(name: str) -> None:
    head, size = HEADS[name]
    distribution = head(torch.zeros(5, size))
    assert isinstance(distribution, Independent) and isinstance(distribution.base_dist, Normal)
    assert distribution.base_dist.loc.shape == distribution.base_dist.scale.shape == (5, 2)


@pytest.mark.parametrize("before", [-1e30, -200.0, -110.0, 0.0, 1e30])
def test_no_number_makes_the_gradient_of_a_variance_infinite(before: float) -> None:
    x = torch.tensor([[0.0, before]], requires_grad=True)
    distribution = own.GaussianHeadWithDiagonalCovariance()(x)
    (distribution.log_prob(torch.ones(1, 1)) + distribution.entropy() + distribution.rsample().sum()).sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_the_squashed_head_takes_logarithms_of_scales_within_bounds() -> None:
    x = torch.tensor([[0.5, 0.5, 0.5, -99.0, 0.0, 99.0]])
    base = own.SquashedGaussianHead()(x).base_dist
    assert torch.equal(base.loc, x[:, :3])
    torch.testing.assert_close(base.scale, torch.tensor([[-20.0, 0.0, 2.0]]).exp())
    torch.testing.assert_close(
        own.SquashedGaussianHead(-1, 1)(x).base_dist.scale, torch.tensor([[-1.0, 0.0, 1.0]]).exp()
    )


@pytest.mark.parametrize("number", [1e30, -1e30, 88.0, 0.0])
def test_no_number_makes_the_squashed_head_infinite(number: float) -> None:
    x = torch.full((3, 4), number, requires_grad=True)
    sample, log_prob = own.SquashedGaussianHead()(x).rsample_with_log_prob()
    (sample.sum() + log_prob.sum()).backward()
    assert torch.isfinite(log_prob).all()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_logits_of_one_and_of_several_choices() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 0.0, 0.0]])
    assert own.SoftmaxCategoricalHead()(logits).mode.tolist() == [2]
    assert own.MultiCategoricalHead(np.array([2, 3]))(logits).mode.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: own.GaussianHeadWithStateIndependentCovariance(2, "full"),
            "var_type is 'full', expected 'spherical' or",
        ),
        (lambda: own.GaussianHeadWithFixedCovariance(0), "scale is 0, expected a positive number"),
        (lambda: own.SquashedGaussianHead(1, -1), "min_log_scale is 1, expected less than max_log_scale, -1"),
        (lambda: own.MultiCategoricalHead([]), r"nvec is \(\), expected positive numbers"),
        (lambda: own.MultiCategoricalHead([2, 0]), r"nvec is \(2, 0\), expected positive numbers"),
        (lambda: own.MultiCategoricalHead([2, 2])(torch.zeros(1, 5)), "add up to 5 logits"),
        (lambda: own.GaussianHeadWithDiagonalCovariance()(torch.zeros(1, 3)), r"shape \(1, 3\), expected \[..., 2n\]"),
        (lambda: own.SquashedGaussianHead()(torch.zeros(1, 3)), r"shape \(1, 3\), expected \[..., 2n\]"),
    ],
)
def test_what_cannot_be_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_head_gives_one_action_a_row() -> None:
    distribution = own.DeterministicHead()(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert (distribution.batch_shape, distribution.event_shape) == ((2,), (2,))
    assert distribution.sample().tolist() == distribution.mode.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_the_gradient_goes_through_the_action() -> None:
    policy = nn.Sequential(nn.Linear(2, 2), own.DeterministicHead())
    policy(torch.ones(1, 2)).rsample().sum().backward()
    assert policy[0].weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_a_policy_of_ones_own_is_a_callable() -> None:
    class Still(Policy):
        def __call__(self, x: torch.Tensor) -> object:
            return own.DeterministicHead()(torch.zeros(len(x), 1))

    assert Still()(torch.ones(3, 2)).sample().tolist() == [[0.0]] * 3
