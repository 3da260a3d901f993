import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pfrl_like import action_value as own

Q = torch.tensor([[1.0, 3.0, 2.0], [6.0, 4.0, 5.0]])
Z = torch.tensor([0.0, 1.0])


def discrete() -> own.DiscreteActionValue:
    return own.DiscreteActionValue(Q.clone())


def distributional() -> own.DiscreteActionValue:
    """Means are Q / 10: with atoms 0 and 1 the mean is the probability of 1."""
    return own.DistributionalDiscreteActionValue(torch.stack([1 - Q / 10, Q / 10], dim=2), Z)


def quantile() -> own.DiscreteActionValue:
    """Means are Q: the two quantiles lie 1 below and above."""
    return own.QuantileDiscreteActionValue(torch.stack([Q - 1, Q + 1], dim=1))


FORMS = {"discrete": (discrete, 1.0), "distributional": (distributional, 10.0), "quantile": (quantile, 1.0)}


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[own.DiscreteActionValue, float]:
    make, factor = FORMS[request.param]
    return make(), factor


def close(actual: Tensor, expected: Any) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_values_are_those_of_the_means(form: tuple[own.DiscreteActionValue, float]) -> None:
    value, factor = form
    some, others = torch.tensor([2, 1]), torch.tensor([0, 2])
    assert value.greedy_actions.tolist() == [1, 0] and value.greedy_actions.dtype == torch.int64
    assert value.n_actions == 3 and value.device == Q.device
    torch.testing.assert_close(value.q_values * factor, Q)
    close(value.max * factor, [3.0, 6.0])
    close(value.evaluate_actions(some) * factor, [2.0, 4.0])
    close(value.evaluate_actions(some.int()) * factor, [2.0, 4.0])
    close(value.compute_advantage(some) * factor, [-1.0, -2.0])
    close(value.compute_double_advantage(some, others) * factor, [1.0, -1.0])
    close(value.compute_expectation(0.0) * factor, [2.0, 5.0])  # the mean
    close(value.compute_expectation(1000.0) * factor, [3.0, 6.0])  # the maximum
    names = ("quantiles", "q_dist", "q_values")
    assert value.params == (next(getattr(value, name) for name in names if hasattr(value, name)),)


def test_expectation_weighs_by_softmax() -> None:
    value = own.DiscreteActionValue(torch.tensor([[0.0, 1.0]]))
    # softmax(2 * (0, 1))[1] = 1 / (1 + e**-2)
    close(value.compute_expectation(2.0), [1 / (1 + math.exp(-2.0))])


def test_mask_forbids_actions_unless_it_forbids_all(form: tuple[own.DiscreteActionValue, float]) -> None:
    value, factor = form
    masked = value.masked(np.array([[True, False, True], [False, True, True]]))
    assert masked.greedy_actions.tolist() == [2, 2]
    close(masked.max * factor, [2.0, 5.0])
    close(masked.compute_expectation(0.0) * factor, [1.5, 4.5])
    torch.testing.assert_close(masked.q_values, value.q_values)
    assert value.action_mask is None and value.greedy_actions.tolist() == [1, 0]
    masked = value.masked([[False, False, False], [False, True, False]])  # the first row allows everything
    close(masked.max * factor, [3.0, 4.0])
    assert masked.greedy_actions.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"action_mask has shape \(2,\), expected \(2, 3\) or \(3,\)"):
        value.masked([True, False])


def test_index_gives_some_rows_with_their_mask(form: tuple[own.DiscreteActionValue, float]) -> None:
    value, factor = form
    masked = value.masked([[True, True, True], [False, True, True]])
    assert masked[1:].greedy_actions.tolist() == [2]
    assert masked[torch.tensor([1, 0])].greedy_actions.tolist() == [2, 1]
    close(value[-1].max * factor, [6.0])
    close(value[0].max * factor, [3.0])
    close(value[np.int64(0)].max * factor, [3.0])


def test_rows_can_be_gone_through_and_no_others(form: tuple[own.DiscreteActionValue, float]) -> None:
    assert [row.greedy_actions.item() for row in form[0]] == form[0].greedy_actions.tolist()
    assert form[0][-1].greedy_actions.tolist() == form[0].greedy_actions.tolist()[-1:]
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"index {index} is out of range for the values of 2 states"):
            form[0][index]


@pytest.mark.filterwarnings("error")
def test_a_mask_may_be_read_only(form: tuple[own.DiscreteActionValue, float]) -> None:
    mask = np.array([False, False, True])
    mask.flags.writeable = False
    assert form[0].masked(mask).greedy_actions.tolist() == [2, 2]


def test_gradient_of_the_maximum_reaches_the_best_action_only() -> None:
    q = Q.clone().requires_grad_()
    own.DiscreteActionValue(q).max.sum().backward()
    assert not own.DiscreteActionValue(q).greedy_actions.requires_grad
    assert q.grad is not None
    close(q.grad, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])


def test_repr_applies_the_formatter() -> None:
    value = own.DiscreteActionValue(Q[:1], q_values_formatter=lambda q: (10 * q).tolist())
    assert repr(value) == "DiscreteActionValue greedy_actions:[1] q_values:[[10.0, 30.0, 20.0]]"
    assert repr(value[0]).endswith("q_values:[[10.0, 30.0, 20.0]]")


def test_distribution_of_given_and_greedy_actions() -> None:
    value = own.DistributionalDiscreteActionValue(torch.stack([1 - Q / 10, Q / 10], dim=2), Z)
    close(value.evaluate_actions_as_distribution(torch.tensor([2, 1])), [[0.8, 0.2], [0.6, 0.4]])
    close(value.max_as_distribution, [[0.7, 0.3], [0.4, 0.6]])
    close(value.masked([True, False, False]).max_as_distribution, [[0.9, 0.1], [0.4, 0.6]])


def test_quantiles_of_given_actions() -> None:
    value = own.QuantileDiscreteActionValue(torch.stack([Q - 1, Q + 1], dim=1))
    close(value.evaluate_actions_as_quantiles(torch.tensor([2, 1])), [[1.0, 3.0], [3.0, 5.0]])


def test_taus_follow_the_rows() -> None:
    taus = torch.tensor([[0.1, 0.9], [0.2, 0.8]])
    value = own.QuantileDiscreteActionValue(torch.stack([Q - 1, Q + 1], dim=1), taus=taus)
    assert value.masked([True, True, True])[1:].taus is not None
    close(value.masked([True, True, True])[1:].taus, [[0.2, 0.8]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: own.DiscreteActionValue(torch.zeros(3)), r"q_values has shape \(3,\), expected \[B, n_actions\]"),
        (lambda: own.DiscreteActionValue(np.zeros((1, 3))), "q_values is ndarray, expected a tensor"),
        (lambda: own.DistributionalDiscreteActionValue(torch.zeros(1, 3, 5), torch.zeros(4)), r"z_values \(4,\)"),
        (
            lambda: own.DistributionalDiscreteActionValue(torch.zeros(3, 5), torch.zeros(5)),
            r"q_dist has shape \(3, 5\)",
        ),
        (lambda: own.DistributionalDiscreteActionValue(torch.zeros(1, 3, 5), np.zeros(5)), "expected tensors"),
        (lambda: own.QuantileDiscreteActionValue(torch.zeros(1, 3)), r"quantiles has shape \(1, 3\)"),
        (lambda: own.QuantileDiscreteActionValue(np.zeros((1, 3, 3))), "quantiles is ndarray"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        make()


def quadratic(**bounds: Any) -> own.QuadraticActionValue:
    """Q(a) = v - (a0**2 * 2 + a1**2 * 4) / 2 around mu."""
    mat = torch.tensor([[[2.0, 0.0], [0.0, 4.0]]]).expand(2, 2, 2)
    return own.QuadraticActionValue(torch.tensor([[1.0, 0.0], [0.0, 3.0]]), mat, torch.tensor([[5.0], [6.0]]), **bounds)


def test_quadratic_value_falls_with_the_distance_from_mu() -> None:
    # (2, 1) - (1, 0) = (1, 1): 5 - (2 + 4) / 2 = 2;   (0, 1) - (0, 3) = (0, -2): 6 - 4 * 4 / 2 = -2
    close(quadratic().evaluate_actions(torch.tensor([[2.0, 1.0], [0.0, 1.0]])), [2.0, -2.0])


def test_quadratic_value_has_off_diagonal_terms() -> None:
    mat = torch.tensor([[[2.0, 1.0], [1.0, 2.0]]])
    value = own.QuadraticActionValue(torch.zeros(1, 2), mat, torch.zeros(1))
    # (1, 1) P (1, 1) = 2 + 1 + 1 + 2 = 6
    close(value.evaluate_actions(torch.ones(1, 2)), [-3.0])


def test_quadratic_greedy_action_is_clipped_to_the_bounds() -> None:
    value = quadratic(min_action=np.array([-1.0, 0.5]), max_action=2.0)
    close(value.greedy_actions, [[1.0, 0.5], [0.0, 2.0]])
    close(value.max, [4.5, 4.0])  # 5 - 4 * 0.5**2 / 2,   6 - 4 * 1**2 / 2
    close(value.compute_advantage(value.greedy_actions), [0.0, 0.0])


def test_quadratic_rows_keep_the_bounds() -> None:
    value = quadratic(max_action=[2.0, 2.0])
    close(value[1].greedy_actions, [[0.0, 2.0]])
    assert len(value.params) == 3


def test_continuous_actions_cannot_be_masked() -> None:
    with pytest.raises(TypeError, match="action_mask was passed, but QuadraticActionValue has no discrete actions"):
        quadratic().masked([True, False])


def test_quadratic_repr_names_action_and_value() -> None:
    assert repr(quadratic()[0]) == "QuadraticActionValue greedy_actions:[[1. 0.]] v:[[5.]]"


def test_single_value_is_whatever_the_evaluator_says() -> None:
    value = own.SingleActionValue(lambda action: -action.sum(1), lambda: torch.tensor([[0.5, 0.5]]))
    close(value.evaluate_actions(torch.tensor([[1.0, 2.0]])), [-3.0])
    close(value.max, [-1.0])
    close(value.greedy_actions, [[0.5, 0.5]])
    close(value.compute_advantage(torch.tensor([[1.0, 2.0]])), [-2.0])
    assert value.params == ()
    assert repr(value) == "SingleActionValue"


def test_single_value_without_maximizer_says_so_when_asked() -> None:
    value = own.SingleActionValue(lambda action: -action.sum(1))
    with pytest.raises(ValueError, match="maximizer is None"):
        _ = value.max


def test_single_value_cannot_be_indexed() -> None:
    with pytest.raises(TypeError, match="SingleActionValue does not support indexing"):
        own.SingleActionValue(lambda action: action)[0]


def test_a_form_of_the_users_own_inherits_the_loss() -> None:
    class Constant(own.ActionValue):
        """The same value for every action."""

        def __init__(self, value: float) -> None:
            self.value = torch.tensor([value])

        greedy_actions = property(lambda self: torch.tensor([0]))
        max = property(lambda self: self.value)
        params = property(lambda self: (self.value,))

        def evaluate_actions(self, actions: Tensor) -> Tensor:
            return self.value

    _, error, _ = Constant(1.0).td_loss(torch.tensor([0]), torch.tensor([2.0]), torch.tensor([0.5]), Constant(4.0))
    close(error, [3.0])  # 2 + 0.5 * 4 - 1
