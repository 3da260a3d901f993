"""`ActionValue.td_loss` of every form, with the arithmetic beside the numbers."""

import math

import pytest
import torch
from torch import Tensor

from pfrl_like import action_value as own
from pfrl_like.functions.losses import half_square, weighted_mean

# Three rows: one step with gamma 0.5; two steps with gamma 0.5, so that the discount is 0.25; a terminal step.
REWARD = torch.tensor([1.0, 2.0, 3.0])
DISCOUNT = torch.tensor([0.5, 0.25, 0.0])
ACTION = torch.tensor([0, 1, 0])
Q = torch.tensor([[2.0, 9.0], [9.0, 2.5], [5.0, 9.0]])
NEXT_Q = torch.tensor([[4.0, 3.0], [0.0, 8.0], [70.0, 80.0]])


def close(actual: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected))


def test_discrete_compares_with_the_best_next_value() -> None:
    loss, error, value = own.DiscreteActionValue(Q).td_loss(ACTION, REWARD, DISCOUNT, own.DiscreteActionValue(NEXT_Q))
    # targets 1 + 0.5 * 4 = 3,   2 + 0.25 * 8 = 4,   3 + 0 * 80 = 3;   values 2, 2.5, 5
    close(value, [2.0, 2.5, 5.0])
    close(error, [1.0, 1.5, -2.0])
    close(loss, [0.5, 1.0, 1.5])  # 1 / 2,   1.5 - 0.5,   2 - 0.5


def test_discrete_takes_the_next_action_it_is_given() -> None:
    next_action = torch.tensor([1, 0, 1])
    _, error, _ = own.DiscreteActionValue(Q).td_loss(
        ACTION, REWARD, DISCOUNT, own.DiscreteActionValue(NEXT_Q), next_action
    )
    close(error, [0.5, -0.5, -2.0])  # 1 + 0.5 * 3 - 2,   2 + 0.25 * 0 - 2.5,   3 - 5


def test_discrete_takes_another_loss() -> None:
    value, next_value = own.DiscreteActionValue(Q), own.DiscreteActionValue(NEXT_Q)
    loss, _, _ = value.td_loss(ACTION, REWARD, DISCOUNT, next_value, None, half_square)
    close(loss, [0.5, 1.125, 2.0])  # 1 / 2,   1.5**2 / 2,   2**2 / 2


def test_discrete_leaves_out_forbidden_next_actions() -> None:
    next_value = own.DiscreteActionValue(NEXT_Q).masked([[False, True], [True, False], [False, False]])
    _, error, _ = own.DiscreteActionValue(Q).td_loss(ACTION, REWARD, DISCOUNT, next_value)
    close(error, [0.5, -0.5, -2.0])  # as with the actions 1 and 0; the terminal row allows nothing and is finite


def test_weights_multiply_the_loss_of_their_row() -> None:
    q = Q.clone().requires_grad_()
    loss, _, _ = own.DiscreteActionValue(q).td_loss(ACTION, REWARD, DISCOUNT, own.DiscreteActionValue(NEXT_Q))
    weighted_mean(loss, torch.tensor([1.0, 0.5, 0.0])).backward()
    # d loss / d q = -clip(error, -1, 1) * weight / 3 = -1 / 3,   -1 * 0.5 / 3,   0
    assert q.grad is not None
    close(q.grad, [[-1 / 3, 0.0], [0.0, -0.5 / 3], [0.0, 0.0]])


def test_targets_take_no_gradient() -> None:
    q, next_q = Q.clone().requires_grad_(), NEXT_Q.clone().requires_grad_()
    loss, error, value = own.DiscreteActionValue(q).td_loss(ACTION, REWARD, DISCOUNT, own.DiscreteActionValue(next_q))
    loss.sum().backward()
    assert q.grad is not None and next_q.grad is None
    assert not error.requires_grad and not value.requires_grad


def test_distributional_is_the_cross_entropy_to_the_projection() -> None:
    z = torch.tensor([-1.0, 0.0, 1.0])
    other = [0.0, 0.0, 1.0]
    probs = torch.tensor([[[0.25, 0.5, 0.25], other], [[0.5, 0.25, 0.25], other]])
    # The best next action is the one with the larger mean: 0.5 * 1 = 0.5 against -1.
    next_probs = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]] * 2)
    value = own.DistributionalDiscreteActionValue(probs, z)
    next_value = own.DistributionalDiscreteActionValue(next_probs, z)
    reward, discount = torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.0])
    loss, error, mean = value.td_loss(torch.tensor([0, 0]), reward, discount, next_value)
    # row 0: atoms move to 0.5 + 0.5 * (-1, 0, 1) = (0, 0.5, 1) with masses (0, 0.5, 0.5);
    #        0.5 is shared by 0 and 1: target (0, 0.25, 0.75); loss -0.25 ln 0.5 - 0.75 ln 0.25
    # row 1: all mass at 0.5: target (0, 0.5, 0.5); loss -0.5 ln 0.25 - 0.5 ln 0.25
    expected = [0.25 * math.log(2) + 0.75 * math.log(4), math.log(4)]
    close(loss, expected)
    close(error, expected)
    close(mean, [0.0, -0.25])  # -0.25 + 0.25,   -0.5 + 0.25


def test_distributional_takes_the_next_action_it_is_given() -> None:
    z = torch.tensor([0.0, 1.0])
    value = own.DistributionalDiscreteActionValue(torch.tensor([[[0.5, 0.5]]]), z)
    next_value = own.DistributionalDiscreteActionValue(torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]), z)
    arguments = torch.tensor([0]), torch.tensor([0.0]), torch.tensor([1.0]), next_value, torch.tensor([1])
    probs = value.q_dist.requires_grad_()
    value.td_loss(*arguments)[0].sum().backward()
    assert probs.grad is not None
    close(probs.grad[0, 0], [-2.0, 0.0])  # all of the target lies on atom 0: d(-ln p)/dp = -1 / 0.5


def test_distributional_survives_a_probability_of_zero() -> None:
    z = torch.tensor([0.0, 1.0])
    value = own.DistributionalDiscreteActionValue(torch.tensor([[[1.0, 0.0]]]), z)
    next_value = own.DistributionalDiscreteActionValue(torch.tensor([[[0.0, 1.0]]]), z)
    loss, _, _ = value.td_loss(torch.tensor([0]), torch.tensor([0.0]), torch.tensor([1.0]), next_value)
    close(loss, [-math.log(1e-10)])


def test_quantile_is_the_quantile_huber_loss_of_every_pair() -> None:
    # [B, n_taus, n_actions]: action 0 has the quantiles (0, 2); the next greedy action 1 has (0, 5)
    value = own.QuantileDiscreteActionValue(torch.tensor([[[0.0, 9.0], [2.0, 9.0]]]))
    next_value = own.QuantileDiscreteActionValue(torch.tensor([[[1.0, 0.0], [1.0, 5.0]]]))
    loss, error, mean = value.td_loss(torch.tensor([0]), torch.tensor([0.5]), torch.tensor([0.5]), next_value)
    # targets 0.5 + 0.5 * (0, 5) = (0.5, 3); midpoints (0.25, 0.75): the numbers of test_losses.py
    close(loss, [0.328125 + 0.3125])
    close(error, [0.75])  # |(0.5 + 3) / 2 - (0 + 2) / 2|
    close(mean, [1.0])


def test_quantile_forgets_the_next_state_after_a_terminal_step() -> None:
    value = own.QuantileDiscreteActionValue(torch.tensor([[[1.0]], [[4.0]]]))
    next_value = own.QuantileDiscreteActionValue(torch.full((2, 1, 1), 100.0))
    _, error, _ = value.td_loss(torch.tensor([0, 0]), torch.tensor([3.0, 3.0]), torch.zeros(2), next_value)
    close(error, [2.0, 1.0])  # |3 - 1|,   |3 - 4|


def test_quantile_learns_the_quantiles_it_was_asked_for() -> None:
    one, taus = torch.zeros(1, 1, 1), torch.tensor([[0.9]])
    value = own.QuantileDiscreteActionValue(one, taus=taus)
    loss, _, _ = value.td_loss(
        torch.tensor([0]), torch.tensor([0.5]), torch.zeros(1), own.QuantileDiscreteActionValue(one)
    )
    close(loss, [0.9 * 0.125])  # the error 0.5 is positive: weight tau, huber 0.125


def quadratic(v: float) -> own.ActionValue:
    return own.QuadraticActionValue(torch.tensor([[1.0]]), torch.tensor([[[4.0]]]), torch.tensor([[v]]))


def single(v: float) -> own.ActionValue:
    return own.SingleActionValue(lambda action: v - 2.0 * (action[:, 0] - 1.0) ** 2, lambda: torch.tensor([[1.0]]))


@pytest.mark.parametrize("form", [quadratic, single])
def test_continuous_forms_compare_with_the_value_at_the_maximum(form: type) -> None:
    action, reward, discount = torch.tensor([[2.0]]), torch.tensor([1.0]), torch.tensor([0.5])
    _, error, value = form(3.0).td_loss(action, reward, discount, form(10.0))
    close(value, [1.0])  # 3 - 4 * (2 - 1)**2 / 2
    close(error, [5.0])  # 1 + 0.5 * 10 - 1
