"""Agents of offline algorithms learn from a dataset, are saved, act, and go on in an environment as they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from registry import LEARNERS

from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import train_agent, train_agent_offline
from pfrl_like.testing.play import difference
from pfrl_like.utils.checks import check_action

OFFLINE = [name for name, entry in LEARNERS.items() if getattr(entry.kind, "_is_offline", False)]


def recorded(env: Any, n: int = 40) -> MDPDataset:
    """Random steps in episodes of ten, of which every other one is cut off."""
    rng, size = np.random.default_rng(0), env.observation_space.shape[0]
    discrete = isinstance(env.action_space, spaces.Discrete)
    actions = rng.integers(0, env.action_space.n, n) if discrete else rng.uniform(-1, 1, (n, *env.action_space.shape))
    last = np.arange(n) % 10 == 9
    terminal = last & (np.arange(n) % 20 == 9)
    return MDPDataset.from_arrays(
        rng.normal(size=(n, size)).astype(np.float32), actions, rng.normal(size=n), terminal, last & ~terminal,
        discrete_action=discrete,
    )  # fmt: skip


def parameters(agent: Any) -> torch.Tensor:
    """All parameters of what acts or, if that does not learn, of the critics."""
    learns = getattr(agent, "policy_learns", True)
    module = getattr(agent, agent._acting_attributes[0]) if learns else torch.nn.ModuleList(agent.critics)
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().clone()


@pytest.mark.representatives(4)
@pytest.mark.parametrize("agent", OFFLINE)
def test_an_agent_trains_from_a_dataset_and_goes_on_online(agent: str, tmp_path: Path) -> None:
    entry = LEARNERS[agent]
    plain = ("ReplayBuffer", "EpisodicReplayBuffer")
    case = next(case for case in entry.fitting() if case["replay_buffer"] in plain and not case["recurrent"])
    first, again = entry.make(case, tmp_path), entry.make(case, tmp_path)
    env = entry.env(case)
    before = parameters(first)
    train_agent_offline(first, recorded(env), 6, tmp_path / "offline", minibatch_size=8)
    offline = parameters(first)
    assert first.optim_t == 6 and not torch.equal(before, offline)
    again.load(tmp_path / "offline" / "6_finish")
    assert difference(first.state_dict(), again.state_dict(), "state") is None
    obs = env.reset(seed=0)[0]
    actions = []
    for each in (first, again):
        torch.manual_seed(0)  # of agents that draw even then
        with each.eval_mode():
            actions.append(each.act(obs))
    np.testing.assert_array_equal(*actions)
    check_action(env.action_space, actions[0], bounds=False)
    train_agent(first, env, 24, tmp_path / "online")
    assert first.optim_t > 6 and not torch.equal(parameters(first), offline)
