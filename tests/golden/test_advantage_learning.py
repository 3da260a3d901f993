"""AL, PAL, DoublePAL and DPP in its three forms, with the arithmetic beside the numbers.

Observations are numbers, and Q(s, a) is a table: s * 1 for action 0 and s * 2 for action 1 in the online network; in
the target network 4 s and 3 s, so that the gap of action 1 is s.
"""

import math
from typing import Any

import pytest
import torch
from agent_parts import make_agent
from hand_parts import Table
from torch import Tensor, nn

from pfrl_like.action_value import DistributionalDiscreteActionValue, QuadraticActionValue
from pfrl_like.agents.dpp import DPPL, DPPGreedy
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions import losses as library
from pfrl_like.utils.recurrent import sequence_outputs

# Three rows: one step with gamma 0.5; two steps with gamma 0.5 (discount 0.25); a terminal step.
REWARD = torch.tensor([1.0, 3.0, 5.0])
DISCOUNT = torch.tensor([0.5, 0.25, 0.0])


BATCH = Batch(
    obs=torch.tensor([2.0, 4.0, 3.0]),
    action=torch.tensor([1, 1, 1]),
    reward=REWARD,
    next_obs=torch.tensor([6.0, 2.0, 50.0]),
    discount=DISCOUNT,
)
VALUE = torch.tensor([4.0, 8.0, 6.0])  # 2 s
# The targets of DQN are 1 + 0.5 * 24 = 13,   3 + 0.25 * 8 = 5,   5.


def close(actual: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected))


def agent_of(name: str | type[DQN], **options: Any) -> Any:
    agent: Any = make_agent(name, q_function=Table([1.0, 2.0]), **options)
    with torch.no_grad():
        agent.target_model.weight.copy_(torch.tensor([4.0, 3.0]))
    return agent


def targets(name: str | type[DQN], batch: Batch = BATCH, **options: Any) -> Tensor:
    _, td_error, stats = agent_of(name, **options).loss(batch)
    torch.testing.assert_close(stats["q"], VALUE)
    return td_error + VALUE


# The functions


def test_advantage_learning_takes_a_part_of_the_gap_off() -> None:
    target = library.advantage_learning_target(
        REWARD, DISCOUNT, torch.tensor([4.0, 8.0, 70.0]), torch.tensor([2.0, 0.0, 4.0]), 0.25
    )
    # 1 + 0.5 * 4 - 0.25 * 2,   3 + 0.25 * 8 - 0,   5 - 0.25 * 4
    close(target, [2.5, 5.0, 4.0])


def test_persistent_advantage_learning_takes_the_smaller_gap() -> None:
    gap, next_gap = torch.tensor([2.0, 4.0, 4.0]), torch.tensor([8.0, 2.0, 60.0])
    next_value = torch.tensor([4.0, 8.0, 70.0])
    target = library.persistent_advantage_learning_target(REWARD, DISCOUNT, next_value, gap, next_gap, 0.25)
    # max(3 - 0.25 * 2, 3 - 0.25 * 8),   max(5 - 0.25 * 4, 5 - 0.25 * 2),   max(5 - 0.25 * 4, 5 - 0): no gap at the end
    close(target, [2.5, 4.5, 5.0])


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_an_action_that_is_forbidden_next_has_an_infinite_gap_there(alpha: float) -> None:
    next_gap = torch.full((3,), torch.inf)
    target = library.persistent_advantage_learning_target(
        REWARD, DISCOUNT, torch.zeros(3), torch.ones(3), next_gap, alpha
    )
    close(target, [1.0 - alpha, 3.0 - alpha, 5.0])


def test_dynamic_policy_programming_adds_up_the_differences_from_the_mean() -> None:
    next_mean = torch.tensor([4.0, 8.0, 70.0])
    value, mean = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])
    # 1 + (1 + 0.5 * 4) - 3,   2 + (3 + 0.25 * 8) - 2,   3 + 5 - 1
    close(library.dynamic_policy_programming_target(REWARD, DISCOUNT, next_mean, value, mean), [1.0, 5.0, 7.0])


# The agents


def test_al_takes_the_gap_of_the_target_network() -> None:
    # 13 - 0.5 * 2,   5 - 0.5 * 4,   5 - 0.5 * 3
    close(targets("AL", alpha=0.5), [12.0, 3.0, 3.5])


def test_pal_takes_the_smaller_gap_of_both_states() -> None:
    # 13 - 0.5 * min(2, 6),   5 - 0.5 * min(4, 2),   5 - 0.5 * min(3, 0)
    close(targets("PAL", alpha=0.5), [12.0, 4.0, 5.0])


def test_double_pal_takes_the_next_action_of_the_online_network() -> None:
    # It prefers action 1: 1 + 0.5 * 18 - 0.5 * 2,   3 + 0.25 * 6 - 0.5 * 2,   5
    close(targets("DoublePAL", alpha=0.5), [9.0, 3.5, 5.0])


def test_dpp_takes_the_softmax_mean_for_the_value() -> None:
    # With eta = log 2 the action 1 has the probability 1 / (1 + 2**s), and the mean is 4 s - s / (1 + 2**s):
    mean = {s: 4 * s - s / (1 + 2**s) for s in (2, 3, 4, 6)}
    expected = [6 + 1 + 0.5 * mean[6] - mean[2], 12 + 3 + 0.25 * mean[2] - mean[4], 9 + 5 - mean[3]]
    close(targets("DPP", eta=math.log(2)), expected)
    assert expected[2] == pytest.approx(9 + 5 - 35 / 3)  # 12 - 3 / 9


def test_dppl_takes_the_log_of_the_sum_for_the_value() -> None:
    # With eta = log 2 it is log2(2**(4 s) + 2**(3 s)) = 4 s + log2(1 + 2**-s):
    value = {s: 4 * s + math.log2(1 + 2**-s) for s in (2, 3, 4, 6)}
    expected = [6 + 1 + 0.5 * value[6] - value[2], 12 + 3 + 0.25 * value[2] - value[4], 9 + 5 - value[3]]
    close(targets(DPPL, eta=math.log(2)), expected)
    # of what is allowed: 6 + 1 + 0.5 * 18 - 6,   12 + 3 + 0.25 * 8 - value,   the same
    close(targets(DPPL, MASKED, eta=math.log(2)), [10.0, 17 - value[4], expected[2]])


def test_munchausen_pays_for_being_sure() -> None:
    # With tau = 1 / log 2 the policy of the target network has log pi(1|s) * tau = -s - log2(1 + 2**-s), of which half
    # is paid, at least -3 / 2, and the soft value is 4 s + log2(1 + 2**-s).
    soft = {s: 4 * s + math.log2(1 + 2**-s) for s in (2, 6)}
    bonus = {s: 0.5 * max(-s - math.log2(1 + 2**-s), -3.0) for s in (2, 3, 4)}
    options = {"alpha": 0.5, "entropy_temperature": 1 / math.log(2), "log_policy_min": -3.0}
    assert bonus[3] == bonus[4] == -1.5 != bonus[2]
    expected = [1 + bonus[2] + 0.5 * soft[6], 3 + bonus[4] + 0.25 * soft[2], 5 + bonus[3]]
    close(targets("MunchausenDQN", **options), expected)
    # of what is allowed: action 1 alone in the first state, of which it is sure, and in the next one, whose value is 18
    close(targets("MunchausenDQN", MASKED, **options)[:1], [1 + 0 + 0.5 * 18])


def test_dpp_greedy_takes_the_largest_for_the_value() -> None:
    # 6 + 1 + 0.5 * 24 - 8,   12 + 3 + 0.25 * 8 - 16,   9 + 5 - 12
    close(targets(DPPGreedy), [11.0, 1.0, 2.0])


def test_defaults_are_those_of_pfrl() -> None:
    for name in ("AL", "PAL", "DoublePAL"):
        assert torch.equal(targets(name), targets(name, alpha=0.9))
    assert torch.equal(targets("DPP"), targets("DPP", eta=1.0))


@pytest.mark.parametrize("name, option", [("AL", "alpha"), ("PAL", "alpha"), ("DoublePAL", "alpha"), ("DPP", "eta")])
def test_the_argument_changes_the_loss(name: str, option: str) -> None:
    losses = [agent_of(name, clip_delta=False, **{option: value}).loss(BATCH)[0].item() for value in (0.1, 0.5)]
    assert losses[0] != losses[1]


@pytest.mark.parametrize(("name", "plain"), [("AL", "DQN"), ("PAL", "DQN"), ("DoublePAL", "DoubleDQN")])
def test_without_advantage_it_is_the_plain_agent(name: str, plain: str) -> None:
    assert torch.equal(targets(name, alpha=0.0), targets(plain))


def test_dpp_of_a_large_eta_is_advantage_learning_of_alpha_1() -> None:
    # 13 - 2,   5 - 4,   5 - 3
    close(targets("DPP", eta=100.0), [11.0, 1.0, 2.0])


@pytest.mark.parametrize("name", ["AL", "PAL", "DoublePAL", "DPP"])
def test_weights_multiply_the_losses_before_the_mean(name: str) -> None:
    agent = agent_of(name, clip_delta=False)
    weight = torch.tensor([1.0, 0.5, 0.25])
    loss, td_error, _ = agent.loss(BATCH.replace(weight=weight))
    torch.testing.assert_close(loss.detach(), (weight * td_error**2 / 2).sum() / 3)


@pytest.mark.parametrize("name", ["AL", "PAL", "DoublePAL", "DPP"])
def test_the_gradient_is_that_of_the_online_value_only(name: str) -> None:
    agent = agent_of(name)
    agent.loss(BATCH)[0].backward()
    assert agent.target_model.weight.grad is None
    assert agent.model.weight.grad[0] == 0  # action 0 was not taken
    assert agent.model.weight.grad[1] != 0


# Masks: before the step action 1 alone is allowed in row 0; after it, action 1 alone in row 0, action 0 alone in row 1.

MASKED = BATCH.replace(
    action_mask=torch.tensor([[False, True], [True, True], [True, True]]),
    next_action_mask=torch.tensor([[False, True], [True, False], [False, False]]),
)


def test_forbidden_actions_make_no_gap() -> None:
    # 1 + 0.5 * 18 - 0,   3 + 0.25 * 8 - 0.5 * 4,   5 - 0.5 * 3
    close(targets("AL", MASKED, alpha=0.5), [10.0, 3.0, 3.5])


@pytest.mark.parametrize("name", ["PAL", "DoublePAL"])
def test_an_action_that_is_forbidden_next_cannot_be_kept_to(name: str) -> None:
    # 10 - 0,   3 + 0.25 * 8 - 0.5 * 4 (the gap of 2 in s' does not count),   5
    close(targets(name, MASKED, alpha=0.5), [10.0, 3.0, 5.0])


def test_the_mean_of_dpp_leaves_forbidden_actions_out() -> None:
    eta = math.log(2)
    # 6 + 1 + 0.5 * 18 - 6,   12 + 3 + 0.25 * 8 - (16 - 4 / 17),   9 + 5 - 35 / 3
    close(targets("DPP", MASKED, eta=eta), [10.0, 1 + 4 / 17, 7 / 3])


def test_recurrent_values_of_both_states_are_those_of_the_sequences() -> None:
    g = torch.Generator().manual_seed(0)
    obs, next_obs = torch.randn(2, 3, 5, generator=g)
    lengths = torch.tensor([2, 1])  # time first: a0, b0, a1
    batch = Batch(obs, torch.tensor([0, 1, 1]), REWARD, next_obs, DISCOUNT, lengths=lengths)
    al: Any = make_agent("AL", recurrent=True, alpha=0.5)
    dqn: Any = make_agent("DQN", recurrent=True)
    dqn.load_state_dict(al.state_dict())
    value = sequence_outputs(al.target_model, obs, None, lengths)
    gap = value.max - value.evaluate_actions(batch.action)
    torch.testing.assert_close(al.loss(batch)[1], dqn.loss(batch)[1] - 0.5 * gap)


# Other forms of value


def test_distributional_values_are_compared_by_their_means() -> None:
    value = DistributionalDiscreteActionValue(torch.tensor([[[0.5, 0.5], [0.25, 0.75]]]), torch.tensor([0.0, 4.0]))
    loss, error, mean = value.target_loss(torch.tensor([1]), torch.tensor([5.0]))
    # 0.75 * 4 = 3;   5 - 3 = 2;   huber 2 - 0.5
    assert (mean.item(), error.item(), loss.item()) == (3.0, 2.0, 1.5)


class Quadratic(nn.Module):
    """Q(s, a) = w s - (a - s)**2 / 2."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(4.0))

    def forward(self, obs: Tensor) -> QuadraticActionValue:
        obs = obs.unsqueeze(1)
        return QuadraticActionValue(obs, torch.ones(len(obs), 1, 1), self.weight * obs)


def test_al_and_pal_learn_from_continuous_actions() -> None:
    batch = BATCH.replace(action=torch.tensor([[4.0], [2.0], [1.0]]))
    # values 8 - 2, 16 - 2, 12 - 2; gaps (a - s)**2 / 2 = 2, 2, 2 and next 2, 0, (0)
    for name, expected in (("AL", [12.0, 4.0, 4.0]), ("PAL", [12.0, 5.0, 5.0])):
        agent: Any = make_agent(name, q_function=Quadratic(), alpha=0.5)
        close(agent.loss(batch)[1], [e - v for e, v in zip(expected, [6.0, 14.0, 10.0], strict=True)])


def test_dpp_greedy_learns_from_continuous_actions() -> None:
    batch = BATCH.replace(action=torch.tensor([[4.0], [2.0], [1.0]]))
    # values 6, 14, 10 and the largest 4 s: 6 + 1 + 0.5 * 24 - 8,   14 + 3 + 0.25 * 8 - 16,   10 + 5 - 12
    agent: Any = make_agent(DPPGreedy, q_function=Quadratic())
    close(agent.loss(batch)[1], [11.0 - 6, 3.0 - 14, 3.0 - 10])


def test_dpp_refuses_continuous_actions() -> None:
    message = "gives QuadraticActionValue, expected DiscreteActionValue"
    with pytest.raises(TypeError, match=message):
        make_agent("DPP", q_function=Quadratic()).act(BATCH.obs[0].numpy())
    agent = make_agent("DPP", q_function=Quadratic())
    with pytest.raises(TypeError, match=message):
        agent.update(BATCH.replace(action=torch.ones(3, 1)))


# Arguments


@pytest.mark.parametrize("name", ["AL", "PAL", "DoublePAL"])
@pytest.mark.parametrize("alpha", [-0.1, 1.0, math.nan])
def test_alpha_out_of_range_is_refused(name: str, alpha: float) -> None:
    with pytest.raises(ValueError, match=f"alpha is {alpha}, expected a number in \\[0, 1\\)"):
        make_agent(name, alpha=alpha)


@pytest.mark.parametrize("eta", [0.0, -1.0, math.inf, math.nan])
def test_eta_out_of_range_is_refused(eta: float) -> None:
    with pytest.raises(ValueError, match=f"eta is {eta}, expected a finite number above 0"):
        make_agent("DPP", eta=eta)


@pytest.mark.parametrize("name", ["AL", "PAL", "DoublePAL", "DPP"])
def test_unknown_arguments_are_refused(name: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        make_agent(name, beta=1.0)
