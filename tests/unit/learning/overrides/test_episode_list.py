"""PFRL's `memory` of PPO and TRPO: what scripts read there, and what they change."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from pfrl_like import agents, policies
from pfrl_like.legacy.ppo import _make_dataset
from pfrl_like.nn import Branched, RecurrentSequential


def obs_of(env: int, t: int) -> Any:
    return np.array([env, t], np.float32)


def agent_of(cls: Any = agents.PPO, recurrent: bool = False, **options: Any) -> Any:
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(2, 2), policies.SoftmaxCategoricalHead())
    value = nn.Linear(2, 1)
    if cls is agents.TRPO:
        return cls(policy, value, torch.optim.SGD(value.parameters(), lr=0.1), update_interval=100, **options)
    model: Any = Branched(policy, value)
    if recurrent:
        model = RecurrentSequential(nn.LSTM(2, 2), model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return cls(model, optimizer, update_interval=100, minibatch_size=5, epochs=1, recurrent=recurrent, **options)


def with_steps(agent: Any, n: int = 5) -> Any:
    """After steps 0 to n - 1 of two environments: the first terminates after its step 2, the second is cut off at 3."""
    for t in range(n):
        agent.batch_act([obs_of(0, t), obs_of(1, t)])
        ends = [t == 2, False], [False, t == 3]
        agent.batch_observe([obs_of(0, t + 1), obs_of(1, t + 1)], [float(t), 10.0 + t], *ends)
    return agent


def step_of(reward: float, nonterminal: float = 1.0) -> dict[str, Any]:
    return {
        "state": obs_of(7, 0), "action": 1, "reward": reward, "next_state": obs_of(7, 1), "nonterminal": nonterminal,
    }  # fmt: skip


@pytest.mark.parametrize("cls", [agents.PPO, agents.TRPO])
def test_memory_has_the_ended_episodes_in_the_order_of_their_ends(cls: Any) -> None:
    agent = with_steps(agent_of(cls))
    first, second = agent.memory
    assert [step["reward"] for step in first] == [0.0, 1.0, 2.0]
    assert [step["reward"] for step in second] == [10.0, 11.0, 12.0, 13.0]
    assert [step["nonterminal"] for step in first + second] == [1, 1, 0, 1, 1, 1, 1]
    assert [tuple(step["state"]) for step in second] == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert [tuple(step["next_state"]) for step in second] == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert first[-1]["next_state"] is None and first[-1]["action"] in (0, 1)


def test_recurrent_states_follow_each_other() -> None:
    first, second = with_steps(agent_of(recurrent=True)).memory
    for step, following in zip(second[:-1], second[1:], strict=True):
        parts = tree_leaves(step["next_recurrent_state"])
        for part, other in zip(parts, tree_leaves(following["recurrent_state"]), strict=True):
            assert part.shape == (1, 2) and (part == other).all() and part.any()
    assert first[-1]["next_recurrent_state"] is None and tree_leaves(second[-1]["next_recurrent_state"])[0].any()


def learnt_reward(agent: Any) -> list[float]:
    """The rewards that the next update uses, the running episodes cut off."""
    rewards: list[float] = []
    agent.learn = lambda episodes: (rewards.extend(episodes.steps.reward.tolist()), (episodes.steps.reward, {}))[1]
    agent.update_from_rollout()
    return rewards


def test_a_value_that_is_assigned_reaches_the_update() -> None:
    agent = with_steps(agent_of())
    for episode in agent.memory:
        for step in episode:
            step["reward"] += 100
        episode[0].update(reward=-1.0, note="own keys stay in the dict")
    assert agent.memory[0][1]["reward"] == 101
    assert sorted(learnt_reward(agent)) == [-1, -1, 3, 4, 14, 101, 102, 111, 112, 113]


def test_a_step_of_an_earlier_update_changes_nothing() -> None:
    agent = with_steps(agent_of())
    step = agent.memory[0][0]
    agent.update_from_rollout()
    with_steps(agent)
    step["reward"] = 99.0
    assert agent.memory[0][0]["reward"] == 0.0 and step["reward"] == 99.0


def test_a_terminal_step_cannot_become_another() -> None:
    agent = with_steps(agent_of())
    with pytest.raises(ValueError, match="nonterminal is 0, and cannot become 1"):
        agent.memory[0][-1]["nonterminal"] = 1.0
    agent.memory[1][-1]["nonterminal"] = 0.0
    assert agent.memory[1][-1]["nonterminal"] == 0.0


def test_appended_episodes_are_learnt_from() -> None:
    agent = with_steps(agent_of())
    memory = agent.memory
    memory.append([step_of(20.0), step_of(21.0, nonterminal=0.0)])
    agent.memory += [[step_of(30.0)]]
    assert [len(episode) for episode in agent.memory] == [3, 4, 2, 1] and len(memory) == 3
    assert tuple(agent.memory[-1][0]["next_state"]) == (7, 1)
    assert sorted(learnt_reward(agent)) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 20, 21, 30]


@pytest.mark.parametrize("way", ["clear", "assignment"])
def test_a_cleared_memory_leaves_the_running_episodes(way: str) -> None:
    agent = with_steps(agent_of())
    if way == "clear":
        agent.memory.clear()
    else:
        agent.memory = []
    assert agent.memory == [] and sorted(learnt_reward(agent)) == [3.0, 4.0, 14.0]


def test_an_assigned_list_takes_the_place_of_the_episodes() -> None:
    agent = with_steps(agent_of())
    agent.memory = [[step_of(5.0)]]
    assert sorted(learnt_reward(agent)) == [3.0, 4.0, 5.0, 14.0]


@pytest.mark.parametrize("name", ["pop", "insert", "sort", "remove", "reverse", "__setitem__", "__delitem__"])
def test_other_changes_are_rejected_by_name(name: str) -> None:
    with pytest.raises(TypeError, match=f"memory.{name} of PPO is not available: use append, extend or clear"):
        getattr(agent_of().memory, name)()


def test_an_episode_that_lacks_a_key_is_rejected() -> None:
    agent = agent_of()
    with pytest.raises(ValueError, match="episode has no nonterminal, reward, expected transition dicts with action"):
        agent.memory.append([{"state": 0, "action": 0, "next_state": 0}])
    with pytest.raises(ValueError, match="episode has no steps"):
        agent.memory.append([])
    with pytest.raises(TypeError, match="memory.append is not available for recurrent agents"):
        agent_of(recurrent=True).memory.append([step_of(0.0)])


def test_copies_are_plain_lists_that_change_nothing() -> None:
    agent = with_steps(agent_of())
    for copied in (copy.deepcopy(agent.memory), pickle.loads(pickle.dumps(agent.memory))):
        assert type(copied) is list and type(copied[0][0]) is dict
        copied[0][0]["reward"] = 9.0
    assert agent.memory[0][0]["reward"] == 0.0 and len(agent._rollout) == 10


def test_pfrls_dataset_of_the_memory_has_the_values_of_the_update() -> None:
    agent = with_steps(agent_of())
    dataset = _make_dataset(
        agent.memory, agent.model, agent.phi, agent.batch_states, None, agent.gamma, agent.lambd, agent.device
    )
    agent._rollout.forget(agent._rollout.running()[1])
    episodes = agent._rollout.take(agent.gamma, agent.device)
    steps = agent._with_advantages(episodes, agent.lambd)
    np.testing.assert_allclose([step["adv"] for step in dataset], steps.advantage, rtol=1e-4)
    np.testing.assert_allclose([step["log_prob"] for step in dataset], steps.log_prob, rtol=1e-4)
