"""The targets and losses of ACER, worked out by hand (arXiv:1611.01224)."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from pfrl_like.action_value import DiscreteActionValue, SingleActionValue
from pfrl_like.agents import acer_losses as acer
from pfrl_like.distributions import Categorical, DiagonalGaussian
from pfrl_like.functions.losses import trust_region_gradient

REWARD, DISCOUNT = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.5])
Q, VALUE, LAST = torch.tensor([3.0, 4.0]), torch.tensor([1.0, 2.0]), torch.tensor([6.0])


def test_on_policy_targets_are_returns_plus_what_q_explains() -> None:
    # Q_ret_1 = 2 + 0.5 * 6 = 5;  Q_ret_0 = 1 + 0.5 * (2 + 1 * (5 - 4)) = 2.5;  advantages 2.5 - 1, 5 - 2
    targets = acer.acer_targets(REWARD, DISCOUNT, Q, VALUE, LAST, None)
    assert_close(targets.q, torch.tensor([2.5, 5.0]))
    assert_close(targets.advantage, torch.tensor([1.5, 3.0]))
    assert_close(targets.value, torch.tensor([0.5, 3.0]))  # V + Q_ret - Q


def test_traces_are_cut_by_small_ratios_and_never_above_one() -> None:
    # c_1 = 0.25: Q_ret_0 = 1 + 0.5 * (2 + 0.25 * 1) = 2.125;  target of V: 1 + min(1, 9) (2.125 - 3), 2 + 0.25 (5 - 4)
    targets = acer.acer_targets(REWARD, DISCOUNT, Q, VALUE, LAST, torch.tensor([9.0, 0.25]))
    assert_close(targets.q, torch.tensor([2.125, 5.0]))
    assert_close(targets.value, torch.tensor([0.125, 2.25]))
    assert_close(
        acer.acer_targets(REWARD, DISCOUNT, Q, VALUE, LAST, torch.tensor([1.0, 9.0])).q, torch.tensor([2.5, 5.0])
    )


def test_traces_of_continuous_actions_take_the_root_by_the_size_of_an_action() -> None:
    # c_1 = 0.25 ** (1 / 2) = 0.5: Q_ret_0 = 1 + 0.5 * (2 + 0.5 * 1) = 2.25;  the target of V takes the ratio itself
    targets = acer.acer_targets(REWARD, DISCOUNT, Q, VALUE, LAST, torch.tensor([1.0, 0.25]), action_size=2)
    assert_close(targets.q, torch.tensor([2.25, 5.0]))
    assert_close(targets.value, torch.tensor([0.25, 2.25]))


def test_q_opc_has_no_weights_and_serves_the_policy_alone() -> None:
    # Q_opc_0 = 1 + 0.5 * (2 + 1) = 2.5 although c_1 = 0.25
    targets = acer.acer_targets(REWARD, DISCOUNT, Q, VALUE, LAST, torch.tensor([1.0, 0.25]), use_Q_opc=True)
    assert_close(targets.q, torch.tensor([2.125, 5.0]))
    assert_close(targets.advantage, torch.tensor([1.5, 3.0]))


def test_terminal_states_are_worth_nothing() -> None:
    # Q_ret_1 = 2;  Q_ret_0 = 1 + 0.5 * (2 + (2 - 4)) = 1
    targets = acer.acer_targets(REWARD, torch.tensor([0.5, 0.0]), Q, VALUE, LAST, None)
    assert_close(targets.q, torch.tensor([1.0, 2.0]))


def test_importance_weights_are_truncated_at_the_threshold() -> None:
    distribution = Categorical(torch.log(torch.tensor([[0.25, 0.75]])))
    action, advantage, ratio = torch.tensor([0]), torch.tensor([2.0]), torch.tensor([5.0])
    log_prob = math.log(0.25)
    assert_close(acer.policy_loss(distribution, action, advantage).item(), -2 * log_prob)
    assert_close(acer.policy_loss(distribution, action, advantage, ratio).item(), -10 * log_prob)
    assert_close(acer.policy_loss(distribution, action, advantage, ratio, 3.0).item(), -6 * log_prob)


def test_the_correction_of_categoricals_sums_over_all_actions() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.8]])).requires_grad_()
    distribution, behaviour = Categorical(logits), Categorical(torch.log(torch.tensor([[0.9, 0.1]])))
    action_value = DiscreteActionValue(torch.tensor([[7.0, 3.0]], requires_grad=True))
    correction = acer.bias_correction(distribution, behaviour, action_value, torch.tensor([1.0]), 2.0)
    # max(0, pi - c mu) = max(0, 0.2 - 1.8), max(0, 0.8 - 0.2) = 0, 0.6;  -0.6 (3 - 1) log 0.8
    assert_close(correction.item(), -1.2 * math.log(0.8))
    correction.sum().backward()  # type: ignore[no-untyped-call]
    assert action_value.q_values.grad is None


def test_the_correction_of_gaussians_weighs_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    distribution = DiagonalGaussian(torch.zeros(1, 1), torch.ones(1, 1))
    behaviour = DiagonalGaussian(torch.full((1, 1), 2.0), torch.ones(1, 1))
    monkeypatch.setattr(DiagonalGaussian, "sample", lambda self: torch.tensor([[0.5]]))
    action_value = SingleActionValue(lambda action: 10 * action)
    correction = acer.bias_correction(distribution, behaviour, action_value, torch.tensor([1.0]), 2.0)
    # mu / pi = exp(-(0.5 - 2)**2 / 2 + 0.5**2 / 2) = exp(-1);  weight (1 - 2 / e) (10 * 0.5 - 1)
    log_prob = -0.125 - math.log(2 * math.pi) / 2
    assert_close(correction.item(), -(1 - 2 / math.e) * 4 * log_prob, rtol=1e-6, atol=1e-6)


def test_trust_region_gradient_is_the_nearest_vector_within_the_bound() -> None:
    g, k = torch.tensor([[3.0, 4.0], [3.0, 4.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    # k . g = 3, 8, 0;  with delta 2: g - (3 - 2) / 1 k,  g - (8 - 2) / 4 k,  g
    z = trust_region_gradient(g, k, 2.0)
    assert_close(z, torch.tensor([[2.0, 4.0], [3.0, 1.0], [3.0, 4.0]]))
    assert_close(trust_region_gradient(g, k, 100.0), g)


def test_the_projected_gradient_reaches_the_logits() -> None:
    probabilities, average = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    logits = torch.log(probabilities).requires_grad_()

    def loss(distribution: Categorical) -> Tensor:
        return -4 * distribution.log_prob(torch.tensor([1]))

    rows, kl = acer.within_trust_region(Categorical(logits), Categorical(average.log()), loss, 0.5)
    rows.sum().backward()  # type: ignore[no-untyped-call]
    # With respect to the log-probabilities g = (0, 4), k = (-0.9, -0.1): k . g = -0.4 < delta, so z = g, and with
    # respect to the logits it is z - sum(z) pi = (-2, 2), with the sign of a loss.
    assert_close(logits.grad, torch.tensor([[2.0, -2.0]]))
    assert_close(kl.item(), 0.9 * math.log(1.8) + 0.1 * math.log(0.2))

    logits.grad = None
    acer.within_trust_region(Categorical(logits), Categorical(average.log()), loss, -1.22)[0].sum().backward()  # type: ignore[no-untyped-call]
    # k . g - delta = -0.4 + 1.22 = 0.82 = |k|**2, so z = g - k = (0.9, 4.1);  z - 5 pi = (-1.6, 1.6)
    assert_close(logits.grad, torch.tensor([[1.6, -1.6]]))


AVERAGE = DiagonalGaussian(torch.full((1, 1), -1.0), torch.ones(1, 1))


def loss_of_two(distribution: DiagonalGaussian) -> Tensor:
    return -distribution.log_prob(torch.full((1, 1), 2.0))


def test_the_projected_gradient_of_gaussians_is_that_of_means_and_deviations() -> None:
    loc, scale = torch.zeros(1, 1, requires_grad=True), torch.ones(1, 1, requires_grad=True)
    acer.within_trust_region(DiagonalGaussian(loc, scale), AVERAGE, loss_of_two, 1.0)[0].sum().backward()  # type: ignore[no-untyped-call]
    # g: d/dloc = 2, d/dscale = (2 / 1)**2 - 1 = 3.  KL = log(scale) + (1 + (loc + 1)**2) / (2 scale**2) - 1/2, so
    # k: d/dloc = 1, d/dscale = 1 - 2 = -1;  k . g = -1 < delta, so that z = g.
    assert_close((loc.grad, scale.grad), (torch.tensor([[-2.0]]), torch.tensor([[-3.0]])))
    loc.grad = scale.grad = None
    acer.within_trust_region(DiagonalGaussian(loc, scale), AVERAGE, loss_of_two, -3.0)[0].sum().backward()  # type: ignore[no-untyped-call]
    # (k . g - delta) / |k|**2 = (-1 + 3) / 2 = 1;  z = (2 - 1, 3 + 1)
    assert_close((loc.grad, scale.grad), (torch.tensor([[-1.0]]), torch.tensor([[-4.0]])))


def test_a_deviation_that_is_fixed_takes_no_part() -> None:
    loc = torch.zeros(1, 1, requires_grad=True)
    acer.within_trust_region(DiagonalGaussian(loc, torch.ones(1, 1)), AVERAGE, loss_of_two, 1.0)[0].sum().backward()  # type: ignore[no-untyped-call]
    assert_close(loc.grad, torch.tensor([[-1.0]]))  # g = 2, k = 1: z = 2 - (2 - 1) / 1


def test_the_value_has_a_loss_of_its_own_where_it_is_learnt_by_itself() -> None:
    targets = acer.Targets(torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([5.0]))
    q, value = torch.tensor([1.0]), torch.tensor([2.0])
    assert_close(acer.value_losses(q, value, targets, learns_value=False).item(), 0.5)
    assert_close(acer.value_losses(q, value, targets, learns_value=True).item(), 0.5 + 4.5)
