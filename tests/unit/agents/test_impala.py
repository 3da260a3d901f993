"""What agents with V-trace store of the policy that acted."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from masked_parts import OneAllowed
from on_policy_parts import make_nets, make_on_policy, one_hot
from torch.distributions import Categorical

from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.learning.minibatches import evaluate_episodes
from pfrl_like.testing import Chain
from pfrl_like.testing.play import play_one, play_several
from pfrl_like.utils import set_random_seed

BOTH = pytest.mark.parametrize("kind", ["IMPALA", "APPO"])


def episodes_of(agent: Any) -> Any:
    return agent._rollout.take(agent.gamma, "cpu", agent._bootstrap_inputs)


@BOTH
@pytest.mark.parametrize("recurrent", [False, True])
def test_log_probabilities_are_stored_when_the_agent_acts(kind: str, recurrent: bool) -> None:
    set_random_seed(0)
    agent: Any = make_on_policy(kind, recurrent, update_interval=100)
    play_several(agent, Chain(time_limit=7), 3, 20)
    episodes = episodes_of(agent)
    now = evaluate_episodes(agent, episodes)[0]
    torch.testing.assert_close(episodes.steps.log_prob, now)
    with torch.no_grad():
        for param in agent.model.parameters():
            param.mul_(2.0)
    assert (episodes.steps.log_prob - evaluate_episodes(agent, episodes)[0]).abs().max() > 0.01


@BOTH
def test_log_probabilities_are_those_among_the_allowed_actions(kind: str) -> None:
    agent: Any = make_on_policy(kind, nets=make_nets(n_actions=3), update_interval=100)
    play_one(agent, OneAllowed(), 10)
    assert episodes_of(agent).steps.log_prob.tolist() == pytest.approx([0.0] * 10, abs=1e-6)


def test_log_probabilities_of_continuous_actions_are_stored() -> None:
    agent: Any = make_on_policy("IMPALA", nets=make_nets(continuous=True), update_interval=100)
    for _ in range(3):
        agent.act(one_hot(0))
        agent.observe(one_hot(1), 0.0, False, False)
    episodes = episodes_of(agent)
    assert episodes.steps.log_prob.shape == (3,)
    torch.testing.assert_close(episodes.steps.log_prob, evaluate_episodes(agent, episodes)[0])


def test_a_log_probability_is_that_of_the_executed_action() -> None:
    agent: Any = make_on_policy("IMPALA", update_interval=100)
    agent.batch_act([one_hot(0), one_hot(1), one_hot(2)], active=[True, False, True])
    probabilities = Categorical(logits=agent._last_outputs[0].logits).probs
    agent.batch_last_action = np.array([0, 0, 1])
    no = [False] * 3
    agent.batch_observe([one_hot(3)] * 3, [0.0] * 3, no, no, active=[True, False, True])
    stored = episodes_of(agent).steps.log_prob.exp()
    torch.testing.assert_close(stored, torch.stack([probabilities[0, 0], probabilities[2, 1]]))


def test_other_agents_store_no_log_probability() -> None:
    agent: Any = make_on_policy("PPO", update_interval=100)
    play_one(agent, Chain(time_limit=7), 3)
    assert episodes_of(agent).steps.log_prob is None


def test_memory_takes_no_episode_without_log_probabilities() -> None:
    agent: Any = make_on_policy("APPO")
    step = {"state": one_hot(0), "action": 0, "reward": 0.0, "next_state": one_hot(1), "nonterminal": 0.0}
    with pytest.raises(TypeError, match=r"memory.append is not available for APPO: use agent.update\(batch\)"):
        agent.memory.append([step])


@BOTH
@pytest.mark.parametrize("recurrent", [False, True])
def test_steps_of_a_copy_with_older_parameters_have_the_log_probabilities_of_the_copy(
    kind: str, recurrent: bool
) -> None:
    set_random_seed(0)
    agent: Any = make_on_policy(kind, recurrent, update_interval=60)
    acting = agent.acting_copy()
    acting.step_collector = ChunkSender(3)
    play_several(acting, Chain(time_limit=7), 3, 20)
    copied = copy.deepcopy(agent.model.state_dict())
    with torch.no_grad():
        for param in agent.model.parameters():
            param.mul_(2.0)
    agent.observe_chunk(acting.step_collector.take())
    episodes = episodes_of(copy.deepcopy(agent))
    assert (episodes.steps.log_prob - evaluate_episodes(agent, episodes)[0]).abs().max() > 0.01
    agent.update_from_rollout()
    assert agent.n_updates > 0
    agent.model.load_state_dict(copied)
    torch.testing.assert_close(episodes.steps.log_prob, evaluate_episodes(agent, episodes)[0])
