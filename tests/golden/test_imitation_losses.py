"""Losses of agents that imitate recorded actions, with numbers worked out by hand, the arithmetic beside them."""

import math

import pytest
import torch
from hand_parts import Acts, Gaussian, Ramps, Slope, Table
from registry import made
from torch import nn

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.offline.advantage_weighted import advantage_weighted_loss
from pfrl_like.agents.offline.awac import REDUCTIONS, binary_weight, sampled_advantage
from pfrl_like.agents.offline.bc import bc_loss, discrete_bc_loss
from pfrl_like.agents.offline.iql import iql_critic_loss, iql_value_loss
from pfrl_like.agents.offline.td3_plus_bc import rebrac_policy_loss, rebrac_reward, td3_plus_bc_policy_loss
from pfrl_like.batch import Batch
from pfrl_like.functions import exponential_weight
from pfrl_like.learning.critics import value_of
from pfrl_like.policies import SoftmaxCategoricalHead

#: Two steps, the second of which is terminal.
BATCH = Batch(
    obs=torch.tensor([[1.0], [2.0]]),
    action=torch.tensor([[0.5, 1.0], [0.0, 2.0]]),
    reward=torch.tensor([1.0, 10.0]),
    next_obs=torch.tensor([[3.0], [4.0]]),
    discount=torch.tensor([0.9, 0.0]),
    next_action=torch.tensor([[1.0, 1.0], [torch.nan, torch.nan]]),
)
WEIGHTED = BATCH.replace(weight=torch.tensor([1.0, 0.5]))


# Behavioural cloning


def test_bc_of_certain_actions_is_the_mean_squared_error() -> None:
    policy = Acts(1.0, 2)
    loss, error = bc_loss(policy, BATCH)
    # ((1 - 0.5)**2 + 0) / 2 = 0.125 and ((2 - 0)**2 + 0) / 2 = 2
    assert error.tolist() == [0.125, 2.0]
    assert loss.item() == 1.0625
    loss.backward()
    assert policy.gain.grad is not None
    assert policy.gain.grad.item() == 2.25  # (0.5 * 1 + 2 * 2) / 2
    assert bc_loss(policy, WEIGHTED, "sum")[0].item() == 1.125  # 0.125 + 0.5 * 2


def test_bc_of_a_density_is_the_negative_log_likelihood() -> None:
    loss, error = bc_loss(Gaussian(1.0, 2), BATCH)
    surprise = [math.log(2 * math.pi) + 0.125, math.log(2 * math.pi) + 2.0]  # two numbers of scale 1 an action
    assert loss.item() == pytest.approx(sum(surprise) / 2)
    assert error.tolist() == pytest.approx([math.log(1 + math.exp(each)) for each in surprise])


def test_discrete_bc_is_cross_entropy_and_the_mean_of_squared_logits() -> None:
    policy = nn.Sequential(nn.Linear(1, 2, bias=False), SoftmaxCategoricalHead())
    with torch.no_grad():
        policy[0].weight.copy_(torch.tensor([[0.0], [math.log(3.0)]]))  # logits 0 and s * log 3
    batch = BATCH.replace(action=torch.tensor([0, 1]))
    loss, error = discrete_bc_loss(policy, batch, beta=0.5)
    surprise = [math.log(4.0), math.log(10 / 9)]  # probabilities 1 / 4 and 9 / 10
    penalty = [0.5 * math.log(3) ** 2 / 2, 0.5 * (2 * math.log(3)) ** 2 / 2]
    assert error.tolist() == pytest.approx(surprise)
    assert loss.item() == pytest.approx((sum(surprise) + sum(penalty)) / 2)


def test_discrete_bc_leaves_forbidden_actions_out_of_the_likelihood_but_not_of_the_logits() -> None:
    policy = nn.Sequential(nn.Linear(1, 2), SoftmaxCategoricalHead())
    mask = torch.tensor([[True, False], [False, True]])
    batch = BATCH.replace(action=torch.tensor([0, 1]), action_mask=mask)
    loss, error = discrete_bc_loss(policy, batch, beta=2.0)
    assert error.tolist() == [0.0, 0.0]
    assert loss.item() == pytest.approx(2 * policy[0](batch.obs).square().mean().item())


# TD3+BC and ReBRAC


def test_td3_plus_bc_weighs_the_critic_against_the_squared_error() -> None:
    policy = Acts(1.0, 2)
    loss = td3_plus_bc_policy_loss(policy, Slope(0.5), BATCH, alpha=2.5)
    # Q = 1 + 0.5 * 2 = 2 and 2 + 0.5 * 4 = 4, of mean size 3; squared errors 0.125 and 2, as for BC
    assert loss.item() == pytest.approx(((0.125 - 2.5 * 2 / 3) + (2 - 2.5 * 4 / 3)) / 2)
    loss.backward()
    assert policy.gain.grad is not None
    # of the errors 2.25; of Q by the gain 1 and 2, on the average 1.5, with the weight 2.5 / 3 that has no gradient
    assert policy.gain.grad.item() == pytest.approx(2.25 - 1.5 * 2.5 / 3)
    weighted = td3_plus_bc_policy_loss(policy, Slope(0.5), WEIGHTED, alpha=2.5, accumulator="sum")
    assert weighted.item() == pytest.approx((0.125 - 2.5 * 2 / 3) + 0.5 * (2 - 2.5 * 4 / 3))


def test_the_policy_of_rebrac_follows_the_least_critic_and_is_held_back_by_the_distance() -> None:
    loss = rebrac_policy_loss(Acts(1.0, 2), [Slope(0.5), Slope(1.0)], BATCH, beta=0.1)
    # Q = 2 and 4 of the first critic, which has less; distances 0.25 and 4
    assert loss.item() == pytest.approx(((0.1 * 0.25 - 2 / 3) + (0.1 * 4 - 4 / 3)) / 2)


def test_rebracs_target_is_lowered_by_the_distance_from_the_next_action_where_it_is_known() -> None:
    next_action = torch.tensor([[3.0, 0.0], [3.0, 0.0]])
    reward = rebrac_reward(BATCH.replace(discount=torch.tensor([0.9, 0.9])), next_action, beta=0.1)
    assert reward.tolist() == pytest.approx([1 - 0.9 * 0.1 * 5, 10.0])  # (3 - 1)**2 + (0 - 1)**2; not known
    ended = BATCH.replace(next_action=torch.zeros(2, 2))
    assert rebrac_reward(ended, next_action, beta=0.1)[1] == 10.0  # nothing follows


def test_rebrac_needs_next_actions() -> None:
    with pytest.raises(ValueError, match="batch lacks next_action .* next_actions=True"):
        rebrac_reward(BATCH.replace(next_action=None), torch.zeros(2, 2), beta=0.1)


# AWAC, CRR and IQL


def test_the_advantage_is_over_what_actions_of_the_policy_are_worth() -> None:
    critics = [Slope(0.5), Slope(1.0)]
    # Q(s, a) = 1 + 0.5 * 1.5 and 2 + 0.5 * 2; of the actions (0, 0), (1, 1), (2, 2) it is s, s + 1, s + 2
    for pool, expected in (("mean", [1.75 - 2, 3 - 3]), ("max", [1.75 - 3, 3 - 4])):
        advantage = sampled_advantage(Ramps(2, 0), critics, BATCH, 3, REDUCTIONS[pool])
        assert advantage.tolist() == pytest.approx(expected)
    assert sampled_advantage(Ramps(2, 0), critics, BATCH, 1).tolist() == [0.75, 1.0]


def test_the_policy_imitates_actions_by_their_weights() -> None:
    policy = Gaussian(1.0, 2)
    weight = exponential_weight(torch.tensor([0.0, math.log(2.0)]), 1.0, 20.0)  # 1 and 2
    surprise = [math.log(2 * math.pi) + 0.125, math.log(2 * math.pi) + 2.0]
    loss = advantage_weighted_loss(policy, BATCH, weight)
    assert loss.item() == pytest.approx((surprise[0] + 2 * surprise[1]) / 2)
    with_importance = advantage_weighted_loss(policy, WEIGHTED, weight, "sum")
    assert with_importance.item() == pytest.approx(surprise[0] + 0.5 * 2 * surprise[1])


def test_a_binary_weight_is_one_where_the_advantage_is_positive() -> None:
    assert binary_weight(torch.tensor([0.1, 0.0, -3.0])).tolist() == [1.0, 0.0, 0.0]


def test_the_value_of_iql_learns_an_expectile_of_the_critics() -> None:
    v_func = nn.Linear(1, 1, bias=False)
    nn.init.ones_(v_func.weight)  # V(s) = s
    q = torch.tensor([3.0, 0.0])
    loss, value = iql_value_loss(v_func, q, BATCH, 0.7)
    assert value.tolist() == [1.0, 2.0]
    assert loss.item() == pytest.approx((0.7 * 4 + 0.3 * 4) / 2)
    loss.backward()
    assert v_func.weight.grad is not None
    assert v_func.weight.grad.item() == pytest.approx((-0.7 * 2 * 2 * 1 + 0.3 * 2 * 2 * 2) / 2)
    assert iql_value_loss(v_func, q, WEIGHTED, 0.7, "sum")[0].item() == pytest.approx(0.7 * 4 + 0.5 * 0.3 * 4)


def test_the_critics_of_iql_bootstrap_from_the_value_of_the_next_state() -> None:
    loss, error, q = iql_critic_loss(value_of(Slope(0.5), BATCH), BATCH, torch.tensor([4.0, 5.0]))
    assert q.tolist() == [1.75, 3.0]
    assert error.tolist() == pytest.approx([1 + 0.9 * 4 - 1.75, 7.0])  # the second one is terminal
    assert loss.item() == pytest.approx((2.85**2 + 49) / 2)
    quantiles = QuantileDiscreteActionValue(torch.tensor([[[1.0], [2.5]], [[2.0], [4.0]]]))
    of_means = iql_critic_loss(quantiles, BATCH, torch.tensor([4.0, 5.0]))
    assert of_means[1].tolist() == pytest.approx(error.tolist())


def test_the_critics_of_discrete_iql_learn_only_the_recorded_actions() -> None:
    v_func = nn.Linear(1, 1, bias=False)
    nn.init.ones_(v_func.weight)  # V(s) = s
    policy = nn.Sequential(nn.Linear(1, 2, bias=False), SoftmaxCategoricalHead())
    nn.init.zeros_(policy[0].weight)  # both actions are equally likely
    critics = {"q_func1": Table([2.0, 3.0]), "q_func2": Table([1.0, 4.0])}
    agent = made("DiscreteIQL", policy=policy, v_func=v_func, **critics, beta=0.5, max_weight=3.0)
    batch, losses = BATCH.replace(action=torch.tensor([0, 1])), []
    # Q = 2 and 6, 1 and 8; r + 0.9 V(s') = 1 + 0.9 * 3 and, at the end of the episode, 10
    errors = [error.tolist() for _, error, _ in agent.critic_losses(batch)]
    assert errors == [pytest.approx([1.7, 4.0]), pytest.approx([2.7, 2.0])]
    agent.update_step(batch, lambda name, loss: losses.append((name, loss.item())))
    found = dict(losses)
    assert found["q_func1_optimizer"] == pytest.approx((1.7**2 + 16) / 2)
    # the least Q of the targets is 1 and 6, V is 1 and 2: weights exp(0) and exp(0.5 * 4), which is cut off at 3
    assert found["policy_optimizer"] == pytest.approx((1 + 3) / 2 * math.log(2))
    assert found["v_func_optimizer"] == pytest.approx(0.7 * 16 / 2)
