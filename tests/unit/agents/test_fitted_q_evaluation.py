"""Fitted Q evaluation learns the value of a policy that it leaves alone."""

from typing import Any

import numpy as np
import pytest
import torch
from actor_critic_parts import make_batch, make_policy
from gymnasium import spaces
from registry import made as make
from torch import nn

from pfrl_like.agents.offline.fitted_q_evaluation import expected_next_value
from pfrl_like.batch import Batch
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead

PROBS = np.array([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.4, 0.6]])


def table(values: Any) -> nn.Linear:
    layer = nn.Linear(4, 2, bias=False)
    layer.weight.data = torch.tensor(values.T, dtype=torch.float32)
    return layer


def test_the_expected_next_value_is_the_mean_over_the_policys_actions() -> None:
    values = np.random.normal(size=(4, 2))
    policy = nn.Sequential(table(np.log(PROBS)), SoftmaxCategoricalHead())
    critic = nn.Sequential(table(values), DiscreteActionValueHead())
    one_hot = torch.eye(4)
    batch = Batch(obs=one_hot, action=torch.zeros(4), reward=torch.zeros(4), next_obs=one_hot, discount=torch.ones(4))
    expected = (PROBS * values).sum(1)
    np.testing.assert_allclose(expected_next_value(policy, critic, batch).q_values[:, 0].detach(), expected, rtol=1e-5)


def test_each_critic_follows_its_own_target() -> None:
    agent = make("FittedQEvaluation", act_deterministically=True)
    batch = make_batch(0)
    before = agent.critic_losses(batch)
    for parameter in agent.target_q_func2.parameters():
        parameter.data.add_(1.0)
    after = agent.critic_losses(batch)
    assert torch.equal(before[0][0], after[0][0]) and not torch.equal(before[1][0], after[1][0])


def test_the_policy_is_neither_changed_nor_copied_and_the_explorer_adds_to_it() -> None:
    policy = make_policy("deterministic")
    before = [parameter.clone() for parameter in policy.parameters()]
    agent = make("FittedQEvaluation", policy=policy, explorer=AdditiveGaussian(0.5))
    assert agent.policy is policy and not hasattr(agent, "target_policy")
    for seed in range(10):
        agent.update(make_batch(seed))
    assert all(map(torch.equal, before, policy.parameters()))
    obs = np.ones(4, np.float32)
    noisy = agent.act(obs)
    with agent.eval_mode():
        chosen = agent.act(obs)
    assert not np.allclose(noisy, chosen)
    assert agent.n_policy_updates == 0 and dict(agent.get_statistics())["n_updates"] == 10


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        ("FittedQEvaluation", {"policy": nn.Sequential(nn.Linear(4, 2), SoftmaxCategoricalHead())},
         "or DiscreteFittedQEvaluation for discrete actions"),
        ("DiscreteFittedQEvaluation", {"policy": make_policy("gaussian")}, "policy gives .* expected"),
        ("FittedQEvaluation", {"q_funcs": nn.Sequential(nn.Linear(6, 1), nn.Linear(1, 1))}, "single Sequential"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_refused(kind: str, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make(kind, **parts).dry_run(np.zeros(4, np.float32))


def test_an_environment_of_other_actions_is_refused() -> None:
    with pytest.raises(TypeError, match="use DiscreteFittedQEvaluation"):
        make("FittedQEvaluation").dry_run(np.zeros(4, np.float32), spaces.Discrete(2))
