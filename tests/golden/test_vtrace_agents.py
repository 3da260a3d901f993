"""IMPALA and APPO by hand: what V-trace makes of a few steps, of the policy that acted and of a later one."""

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from on_policy_parts import Table, drive, make_on_policy
from torch import nn

from pfrl_like.agents.impala import impala_loss
from pfrl_like.batch import Batch
from pfrl_like.learning.minibatches import all_steps
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.testing import Chain
from pfrl_like.testing.play import play_several
from pfrl_like.utils import set_random_seed

GAMMA = 0.5
VALUES = [[10.0], [20.0], [30.0], [40.0], [1000.0]]
#: 0 -> 1 (reward 1), 1 -> the end (reward 2); 2 -> 3 (reward 3) cut off; 0 -> 2 (reward 4) running.
STEPS = [(0, 1.0, 1, False, False), (1, 2.0, 4, True, False), (2, 3.0, 3, False, True), (0, 4.0, 2, False, False)]
BOTH = pytest.mark.parametrize("kind", ["IMPALA", "APPO"])


def log_odds(*probabilities: float) -> torch.Tensor:
    """Logits of the two actions in the first states; both are as probable in the other states."""
    rows = [[0.0, math.log(p / (1 - p))] for p in probabilities]
    return torch.tensor(rows + [[0.0, 0.0]] * (5 - len(rows)))


def collected(kind: str, **options: Any) -> tuple[Any, Any]:
    """An agent of known values, and the steps in which its policy took either action with probability 0.5."""
    nets = nn.Sequential(Table(np.zeros((5, 2), np.float32)), SoftmaxCategoricalHead()), Table(VALUES)
    agent: Any = make_on_policy(kind, nets=nets, gamma=GAMMA, update_interval=100, **options)
    drive(agent, STEPS)
    agent._rollout._columns["action"].fill_(1)  # as probable as the other action
    return agent, agent._rollout.take(GAMMA, "cpu", agent._bootstrap_inputs)


def change_policy(agent: Any, *probabilities: float) -> None:
    """Give action 1 other probabilities in the first states."""
    agent.model.child_modules[0][0].table.data.copy_(log_odds(*probabilities))


def steps_of(kind: str, *probabilities: float, **options: Any) -> Any:
    """The steps with V-trace for a policy of other probabilities of action 1 in the first states."""
    agent, episodes = collected(kind, **options)
    change_policy(agent, *probabilities)
    return agent._with_advantages(episodes, agent.vtrace_lambda if kind == "IMPALA" else agent.lambd)


@BOTH
def test_without_lag_targets_are_n_step_returns(kind: str) -> None:
    # 1 + 0.5 * 2 = 2; 2; 3 + 0.5 * 40 = 23; 4 + 0.5 * 30 = 19. Less the values 10, 20, 30, 10
    steps = steps_of(kind)
    assert steps.returns.tolist() == pytest.approx([2, 2, 23, 19])
    assert steps.advantage.tolist() == pytest.approx([-8, -18, -7, 9])
    assert steps.value.tolist() == [10, 20, 30, 10]
    assert steps.log_prob.tolist() == pytest.approx([math.log(0.5)] * 4)


@BOTH
def test_steps_of_another_policy_are_corrected(kind: str) -> None:
    # ratios 0.25 / 0.5 = 0.5 in state 0; 0.9 / 0.5 = 1.8, clipped to 1, in state 1; 0.1 / 0.5 = 0.2 in state 2
    # errors: 1 + 0.5 * 20 - 10 = 1; 2 - 20 = -18; 3 + 0.5 * 40 - 30 = -7; 4 + 0.5 * 30 - 10 = 9
    # v - V: 0.5 * 1 + 0.5 * 0.5 * -18 = -4; -18; 0.2 * -7 = -1.4; 0.5 * 9 = 4.5
    # advantages: 0.5 * (1 + 0.5 * 2 - 10) = -4; -18; -1.4; 4.5
    steps = steps_of(kind, 0.25, 0.9, 0.1)
    assert steps.returns.tolist() == pytest.approx([6, 2, 28.6, 14.5])
    assert steps.advantage.tolist() == pytest.approx([-4, -18, -1.4, 4.5])
    assert steps.log_prob.exp().tolist() == pytest.approx([0.25, 0.9, 0.1, 0.25])


@BOTH
def test_clips_limit_errors_and_traces(kind: str) -> None:
    # rho: 0.5, 1.8 (bound 2); c: 0.25 (bound). v - V: 0.5 * 1 + 0.5 * 0.25 * -32.4 = -3.55; 1.8 * -18 = -32.4
    # advantages: 0.5 * (1 + 0.5 * -12.4 - 10) = -7.6; -32.4
    steps = steps_of(kind, 0.25, 0.9, 0.1, rho_clip=2.0, c_clip=0.25)
    assert steps.returns[:2].tolist() == pytest.approx([6.45, -12.4])
    assert steps.advantage[:2].tolist() == pytest.approx([-7.6, -32.4])


def test_vtrace_lambda_weighs_later_errors() -> None:
    # v - V: 0.5 * 1 + 0.5 * 0.5 * 0.5 * -18 = -1.75; -18
    steps = steps_of("IMPALA", 0.25, 0.9, 0.1, vtrace_lambda=0.5)
    assert steps.returns[:2].tolist() == pytest.approx([8.25, 2])
    torch.testing.assert_close(steps.returns, steps_of("APPO", 0.25, 0.9, 0.1, lambd=0.5).returns)


def test_values_that_were_recorded_are_not_those_of_the_update() -> None:
    agent, episodes = collected("IMPALA")
    steps = episodes.steps.replace(value=torch.zeros(4))  # of the model that acted
    episodes = dataclasses.replace(episodes, steps=steps)
    assert agent._with_advantages(episodes, 1.0).value.tolist() == [10, 20, 30, 10]


@pytest.mark.parametrize(("rho_clip", "value"), [(1.0, 5 / 6), (2.0, 0.9)])
def test_rho_clip_determines_the_policy_whose_value_is_learned(rho_clip: float, value: float) -> None:
    # Action 1 earns 1 and the other 0; both were taken. The current policy takes action 1 with probability 0.9.
    # With ratios 0.2 and 1 the errors 0.2 * (0 - V) and 1 - V add up to 0 for V = 1 / 1.2: the value of a policy of
    # probabilities in proportion to min(0.5, 0.1) and min(0.5, 0.9). With 0.2 and 1.8: V = 1.8 / 2.
    agent, _ = collected("IMPALA", rho_clip=rho_clip)
    change_policy(agent, 0.9)
    agent.model.child_modules[1].table.data.fill_(value)
    batch = Batch(
        obs=torch.eye(5)[[0, 0]], action=torch.tensor([0, 1]), reward=torch.tensor([0.0, 1.0]),
        next_obs=torch.eye(5)[[1, 1]], discount=torch.zeros(2), log_prob=torch.tensor([0.5, 0.5]).log(),
    )  # fmt: skip
    advantage, _ = agent.update(batch)
    assert advantage.sum().item() == pytest.approx(0.0, abs=1e-6)
    assert advantage.abs().min() > 0.1


# Losses


def test_loss_of_impala_without_lag() -> None:
    # log-probabilities -ln 2: ln 2 * (-8 - 18 - 7 + 9) / 4 = -6 ln 2. Squares: (64 + 324 + 49 + 81) / 4 = 129.5
    agent, episodes = collected("IMPALA")
    loss, stats = impala_loss(agent.model, agent._with_advantages(episodes, 1.0), value_coeff=0.5, entropy_coeff=0.1)
    assert stats["policy_loss"].item() == pytest.approx(-6 * math.log(2))
    assert stats["value_loss"].item() == pytest.approx(129.5)
    assert loss.item() == pytest.approx(-6 * math.log(2) + 0.5 * 129.5 - 0.1 * math.log(2))


def test_loss_of_impala_for_another_policy() -> None:
    # -(-4 ln 0.25 - 18 ln 0.9 - 1.4 ln 0.1 + 4.5 ln 0.25) / 4. Squares: (16 + 324 + 1.96 + 20.25) / 4 = 90.5525
    agent, episodes = collected("IMPALA")
    change_policy(agent, 0.25, 0.9, 0.1)
    loss, stats = impala_loss(agent.model, agent._with_advantages(episodes, 1.0), value_coeff=0.5, entropy_coeff=0.0)
    policy_loss = -(0.5 * math.log(0.25) - 18 * math.log(0.9) - 1.4 * math.log(0.1)) / 4
    assert stats["policy_loss"].item() == pytest.approx(policy_loss)
    assert loss.item() == pytest.approx(policy_loss + 0.5 * 90.5525)


def test_importance_weights_multiply_the_loss_of_impala() -> None:
    # the first step alone, with weight 2 of 4: 2 * (8 * -ln 2 + 0.5 * 64 - 0.1 ln 2) / 4
    agent, episodes = collected("IMPALA")
    steps = agent._with_advantages(episodes, 1.0).replace(weight=torch.tensor([2.0, 0.0, 0.0, 0.0]))
    loss = impala_loss(agent.model, steps, value_coeff=0.5, entropy_coeff=0.1)[0].item()
    assert loss == pytest.approx((-8 * math.log(2) + 32 - 0.1 * math.log(2)) / 2)


@pytest.mark.parametrize("kind", ["PPO", "APPO"])
def test_loss_of_appo_without_lag_is_that_of_ppo_with_lambda_1(kind: str) -> None:
    # all ratios are 1: 24 / 4 = 6, then the squares, and the entropy ln 2
    agent, episodes = collected(kind, lambd=1.0, value_func_coef=0.5, entropy_coef=0.1)
    loss, stats = agent.loss(agent._with_advantages(episodes, 1.0))
    assert stats["policy_loss"].item() == pytest.approx(6.0)
    assert stats["value_loss"].item() == pytest.approx(129.5)
    assert loss.item() == pytest.approx(6.0 + 0.5 * 129.5 - 0.1 * math.log(2))


def test_appo_clips_around_the_policy_at_the_beginning_of_the_update() -> None:
    # 0.5 / 0.25 = 2: min(2 * -4, 1.2 * -4) = -8, min(2 * 4.5, 1.2 * 4.5) = 5.4
    # 0.45 / 0.9 = 0.5: min(0.5 * -18, 0.8 * -18) = -14.4;   0.1 / 0.1 = 1: -1.4;   (8 + 14.4 + 1.4 - 5.4) / 4 = 4.6
    agent, episodes = collected("APPO")
    change_policy(agent, 0.25, 0.9, 0.1)
    steps = agent._with_advantages(episodes, 1.0)
    change_policy(agent, 0.5, 0.45, 0.1)
    assert agent.loss(steps)[1]["policy_loss"].item() == pytest.approx(4.6)


def standardized_steps(agent: Any, episodes: Any) -> Any:
    """The steps of a later policy, with the advantages of the minibatches."""
    change_policy(agent, 0.25, 0.9, 0.1)
    return agent._standardized(episodes, agent._with_advantages(episodes, 1.0))


def test_appo_standardises_advantages_of_the_later_policy() -> None:
    # ratios 0.5, 1 (of 1.8), 0.2, 0.5; advantages without them: -8, -18, -7, 9. Mean: (-4 - 18 - 1.4 + 4.5) / 2.2
    # = -8.590909; deviations 0.590909, -9.409091, 1.590909, 17.590909
    # variance: (0.5 * 0.349174 + 88.530992 + 0.2 * 2.530992 + 0.5 * 309.440083) / 2.2 = 110.878099, root 10.529867
    ratio, deviation = (0.5, 1.0, 0.2, 0.5), (0.590909, -9.409091, 1.590909, 17.590909)
    expected = [rho * x / 10.529867 for rho, x in zip(ratio, deviation, strict=True)]
    assert standardized_steps(*collected("APPO")).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_baseline_does_not_change_the_standardised_advantages_of_appo() -> None:
    agent, episodes = collected("APPO")
    ratio, advantage = torch.tensor([0.5, 1.0, 0.2, 0.5]), torch.tensor([-8.0, -18.0, -7.0, 9.0])
    found = [
        standardized_steps(agent, dataclasses.replace(episodes, steps=episodes.steps.replace(advantage=products)))
        for products in (ratio * advantage, ratio * (advantage + 30.0))
    ]
    torch.testing.assert_close(*found)


def test_steps_that_the_later_policy_never_makes_have_no_standardised_advantage() -> None:
    agent, episodes = collected("APPO")
    steps = episodes.steps.replace(log_prob=torch.tensor([0.0, 0.0, 500.0, 0.0]))  # exp(-500) is 0
    advantage = standardized_steps(agent, dataclasses.replace(episodes, steps=steps))
    assert advantage[2].abs() < 1e-30 and torch.isfinite(advantage).all()


@pytest.mark.parametrize("recurrent", [False, True])
def test_appo_learns_as_ppo_with_lambda_1(recurrent: bool) -> None:
    parameters = []
    for kind in ("PPO", "APPO"):
        set_random_seed(0)
        agent = make_on_policy(kind, recurrent, lambd=1.0, update_interval=12)
        play_several(agent, Chain(time_limit=7), 3, 12)
        assert agent.n_updates >= 18
        parameters.append(torch.cat([param.detach().reshape(-1) for param in agent.model.parameters()]))
    torch.testing.assert_close(*parameters, rtol=0, atol=1e-5)


def test_impala_takes_one_step_along_the_gradient_of_its_loss() -> None:
    agent, episodes = collected("IMPALA", optimizer=lambda params: torch.optim.SGD(params, lr=0.1), entropy_coeff=0.1)
    before = [param.detach().clone() for param in agent.model.parameters()]
    loss = impala_loss(agent.model, all_steps(episodes).replace(**targets(agent, episodes)), entropy_coeff=0.1)[0]
    gradients = torch.autograd.grad(loss, [*agent.model.parameters()])
    advantage, stats = agent.learn(episodes)
    assert advantage.tolist() == pytest.approx([-8, -18, -7, 9])
    assert stats["loss"].item() == pytest.approx(loss.item())
    for old, gradient, new in zip(before, gradients, agent.model.parameters(), strict=True):
        torch.testing.assert_close(new.detach(), old - 0.1 * gradient)


def targets(agent: Any, episodes: Any) -> dict[str, torch.Tensor]:
    steps = agent._with_advantages(episodes, 1.0)
    return {"advantage": steps.advantage, "returns": steps.returns}
