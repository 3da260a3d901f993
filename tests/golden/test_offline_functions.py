"""Weights of advantages, distances and expectiles with numbers worked out by hand."""

import math

import pytest
import torch

from pfrl_like import functions


def test_a_weight_is_the_exponential_of_the_advantage_up_to_a_bound() -> None:
    advantage = torch.tensor([0.0, 2.0, -2.0, 6.0, 1000.0], requires_grad=True)
    weight = functions.exponential_weight(advantage, 2.0, 20.0)
    assert weight.tolist() == pytest.approx([1.0, math.e, 1 / math.e, 20.0, 20.0])  # e**3 is 20.09
    assert not weight.requires_grad


def test_values_are_divided_by_their_mean_size_which_takes_no_gradient() -> None:
    value = torch.tensor([3.0, -1.0], requires_grad=True)
    scaled = functions.over_mean_size(value)
    assert scaled.tolist() == [1.5, -0.5]
    (slope,) = torch.autograd.grad(scaled.sum(), value)
    assert slope.tolist() == [0.5, 0.5]
    assert functions.over_mean_size(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_the_distance_is_summed_over_all_numbers_of_an_action() -> None:
    action = torch.tensor([[[1.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 3.0]]])
    assert functions.squared_distance(action, torch.zeros(2, 2, 2)).tolist() == [5.0, 9.0]


def test_actions_of_another_size_are_not_compared() -> None:
    with pytest.raises(ValueError, match=r"the actions have shapes \(3, 1\) and \(3, 2\), expected equal ones"):
        functions.squared_distance(torch.zeros(3, 1), torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"the actions have shapes \(3, 2\) and \(3, 1\)"):
        functions.maximum_mean_discrepancy(torch.zeros(5, 3, 2), torch.zeros(4, 3, 1), 1.0)


def test_an_expectile_weighs_errors_by_their_sign() -> None:
    error = torch.tensor([2.0, -2.0, 0.0], requires_grad=True)
    loss = functions.expectile(error, 0.7)
    assert loss.tolist() == pytest.approx([2.8, 1.2, 0.0])  # 0.7 * 4, 0.3 * 4
    (slope,) = torch.autograd.grad(loss.sum(), error)
    assert slope.tolist() == pytest.approx([2.8, -1.2, 0.0])


def test_the_least_expectile_loss_is_at_the_expectile() -> None:
    # Of 0 and 1 the tau-expectile m solves tau * (1 - m) = (1 - tau) * m: it is tau.
    samples, m = torch.tensor([0.0, 1.0]), torch.tensor(0.9, requires_grad=True)
    (slope,) = torch.autograd.grad(functions.expectile(samples - m, 0.9).sum(), m)
    assert slope.item() == pytest.approx(0.0, abs=1e-6)
