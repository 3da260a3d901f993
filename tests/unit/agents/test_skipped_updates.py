"""Updates that a GPU skips: nothing moves, nothing is counted, and somebody is told, here on the path of a GPU."""

import copy
from pathlib import Path
from typing import Any

import actor_critic_parts
import agent_parts
import numpy as np
import pytest
import torch
from agent_parts import make_agent
from as_on_gpu import as_on_gpu
from on_policy_parts import make_on_policy
from registry import arguments_of
from torch import nn

from pfrl_like import agents
from pfrl_like.batch import Batch
from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments import train_agent
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing import Chain
from pfrl_like.testing.play import difference, play_one


def make_batch(kind: Any, seed: int, factor: float = 1.0) -> Batch:
    batch = (agent_parts if kind is agents.DQN else actor_critic_parts).make_batch(seed)
    return batch.replace(reward=factor * batch.reward)


@pytest.mark.parametrize("kind", [agents.DQN, agents.DDPG, agents.SoftActorCritic, agents.IQL])
def test_learning_is_as_if_they_had_never_come(kind: Any) -> None:
    soft = {"target_update_method": "soft", "soft_update_tau": 0.1} if kind in (agents.DQN, agents.DDPG) else {}
    one = as_on_gpu(kind(**arguments_of(kind), **soft))
    other = copy.deepcopy(one)
    for seed in range(6):
        torch.manual_seed(seed)
        one.update(make_batch(kind, seed))
        if seed in (0, 3):
            one.update(make_batch(kind, seed, torch.nan))
        if soft:
            one.sync_target_network()
        torch.manual_seed(seed)
        other.update(make_batch(kind, seed))
        if soft and seed not in (0, 3):
            other.sync_target_network()
    with pytest.raises(NonFiniteError, match="were skipped") as info:
        one.settle()
    assert info.value.skipped == 2 and one.optim_t == other.optim_t == 6
    one.settle()
    found = difference(one.state_dict()["attributes"], other.state_dict()["attributes"])
    assert not found, found


def test_running_moments_are_those_before() -> None:
    q_function = nn.Sequential(nn.BatchNorm1d(5), nn.Linear(5, 2), DiscreteActionValueHead())
    agent = as_on_gpu(make_agent(q_function=q_function))
    agent.update(make_batch(agents.DQN, 0))
    before = copy.deepcopy(q_function.state_dict())
    batch = make_batch(agents.DQN, 1)
    agent.update(batch.replace(obs=batch.obs * torch.nan))
    assert all(torch.equal(value, before[name]) for name, value in q_function.state_dict().items())


def test_they_are_told_after_a_hundred_steps_and_the_step_that_tells_is_not_made() -> None:
    agent = as_on_gpu(make_agent())
    for i in range(100):
        agent.update(make_batch(agents.DQN, i, torch.nan if i == 30 else 1.0))
    assert agent.optim_t == 100
    with pytest.raises(NonFiniteError, match="1 of 100 steps") as info:
        agent.update(make_batch(agents.DQN, 100))
    assert agent.optim_t == 99 and info.value.batch is None


def test_a_save_is_whole_and_then_they_are_told(tmp_path: Path) -> None:
    agent, loaded = as_on_gpu(make_agent()), make_agent()
    for factor in (1.0, torch.nan):
        agent.update(make_batch(agents.DQN, 0, factor))
    with pytest.raises(NonFiniteError, match="1 of 2 steps"):
        agent.save(tmp_path)
    loaded.load(tmp_path)
    assert loaded.optim_t == 1 and not difference(loaded.model.state_dict(), agent.model.state_dict())


def test_an_on_policy_agent_does_not_count_them() -> None:
    agent = as_on_gpu(make_on_policy("A2C"))
    play_one(agent, Chain(time_limit=7), 40)
    made = agent.n_updates
    agent.gradient_steps["optimizer"].average = lambda loss, leaves: loss * torch.nan
    play_one(agent, Chain(time_limit=7), 40)
    assert agent.n_updates > made
    with pytest.raises(NonFiniteError):
        agent.settle()
    assert agent.n_updates == made


def test_a_run_ends_with_them(tmp_path: Path) -> None:
    agent, learn = as_on_gpu(make_agent()), []

    def spoil(env: Any, agent: Any, t: int) -> None:
        if t == 30:
            agent.update(make_batch(agents.DQN, 0, np.nan))
            learn.append(agent.optim_t)

    with pytest.raises(NonFiniteError, match="steps were skipped"):
        train_agent(agent, Chain(time_limit=7), 40, tmp_path, step_hooks=[spoil])
    assert learn and (tmp_path / "40_finish").is_dir() and not list(tmp_path.glob("bad_batch*"))
