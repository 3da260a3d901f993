"""Agents that imitate recorded actions find the policy that their losses call for, in one state of known rewards.

The recorded actions are spread evenly over [-1, 1]; the reward of one is 1 - (a - 1/2)**2, and the episode ends.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import agents
from pfrl_like.dataset import MDPDataset
from pfrl_like.explorers import Greedy
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import DeterministicHead, GaussianHeadWithFixedCovariance
from pfrl_like.replay_buffers import ReplayBuffer

N, UPDATES = 256, 500


def recorded() -> MDPDataset:
    action = np.linspace(-1, 1, N)[:, None]
    obs, end = np.ones((N, 1), np.float32), np.ones(N, bool)
    return MDPDataset.from_arrays(obs, action, 1 - (action[:, 0] - 0.5) ** 2, end, next_observations=obs)


def parts(head: nn.Module) -> tuple[list[Any], dict[str, Any]]:
    """Policy, critics and their optimisers, the replay buffer; further arguments."""
    policy = nn.Sequential(nn.Linear(1, 1), head)
    critics = [
        nn.Sequential(ConcatObsAndAction(), nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1)) for _ in range(2)
    ]  # fmt: skip
    modules = [policy, *critics]
    optimizers = [torch.optim.Adam(module.parameters(), lr=1e-2) for module in modules]
    return [*modules, *optimizers, ReplayBuffer()], {"gamma": 0.9, "minibatch_size": 64, "soft_update_tau": 0.1}


def certain(kind: Any, **options: Any) -> Any:
    positional, common = parts(DeterministicHead())
    return kind(*positional, explorer=Greedy(), **common, **options)


def spread(kind: Any, **options: Any) -> Any:
    positional, common = parts(GaussianHeadWithFixedCovariance(0.3))
    return kind(*positional, **common, **options)


def iql() -> Any:
    v_func = nn.Linear(1, 1)
    return spread(
        agents.IQL, v_func=v_func, v_func_optimizer=torch.optim.Adam(v_func.parameters(), lr=1e-2), beta=10.0
    )  # fmt: skip


def bc() -> Any:
    policy = nn.Sequential(nn.Linear(1, 1), DeterministicHead())
    return agents.BC(policy, torch.optim.Adam(policy.parameters(), lr=1e-2), ReplayBuffer(), minibatch_size=64)


def awr() -> Any:
    (policy, *_), _ = parts(GaussianHeadWithFixedCovariance(0.3))
    v_func = nn.Linear(1, 1)
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.005, momentum=0.9) for part in (policy, v_func)]
    steps = {"n_critic_updates": 4, "n_actor_updates": 4, "batch_size_per_update": 64, "minibatch_size": 64}
    return agents.AWR(policy, v_func, *optimizers, ReplayBuffer(), 0.9, beta=0.1, standardize_advantages=False, **steps)


#: Of each agent the action that its loss calls for.
EXPECTED: dict[str, tuple[Callable[[], Any], float]] = {
    # The mean of the actions.
    "BC": (bc, 0.0),
    # With w = 1 / Q(a) the slope of -w Q(a) + a**2 is 2 w (a - 1/2) + 2 a, so that a = w / 2 / (w + 1); w is 1.06.
    "TD3PlusBC": (lambda: certain(agents.TD3PlusBC, alpha=1.0), 0.258),
    # The same with a**2 / 2: a = w / 2 / (w + 1/2); w is 1.03.
    "ReBRAC": (lambda: certain(agents.ReBRAC, actor_beta=0.5), 0.336),
    # The mean of a normal distribution around 1/2 of variance 0.1 / 2, cut off at 1.
    "AWAC": (lambda: spread(agents.AWAC, lam=0.1, n_action_samples=4), 0.493),
    "IQL": (iql, 0.493),
    "AWR": (awr, 0.493),
    # Actions that are better than the policy's lie evenly around 1/2.
    "CRR": (lambda: spread(agents.CRR, weight_type="binary"), 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPECTED)
def test_agent_finds_the_action_that_its_loss_calls_for(kind: str) -> None:
    torch.manual_seed(0)
    make, expected = EXPECTED[kind]
    agent, dataset, rng = make(), recorded(), np.random.default_rng(0)
    for _ in range(UPDATES):
        agent.update(dataset.sample_batch(64, agent.gamma, rng=rng, **agent.sampling))
    with agent.eval_mode():
        assert agent.act(np.ones(1, np.float32)) == pytest.approx(expected, abs=0.06)
