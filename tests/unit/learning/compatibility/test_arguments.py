"""When `replay_start_size` has to be within the capacity of the replay buffer: where a run online would wait for it."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from registry import KINDS, arguments_of

from pfrl_like import agents
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.experiments import eval_performance

OFFLINE = [name for name in dir(agents) if getattr(getattr(agents, name), "_is_offline", False)]
#: Above the capacity of the buffers here, 1,000.
TOO_MANY: Any = {"replay_start_size": 2_000}
REFUSAL = "replay_start_size is 2000, expected at most the capacity of replay_buffer, 1000"


def test_offline_agents_are_those_that_learn_from_recorded_data() -> None:
    assert set(OFFLINE) == {
        "AWAC", "AWR", "AdvantageWeightedActorCritic", "BC", "BCQ", "BEAR", "COMBO", "CQL", "CRR", "CalQL",
        "DecisionTransformer", "DiscreteAWR", "DiscreteBC", "DiscreteBCQ", "DiscreteCQL", "DiscreteDecisionTransformer",
        "DiscreteFittedQEvaluation", "DiscreteIQL", "EDAC", "FittedQEvaluation", "IQL", "PLAS", "PLASWithPerturbation",
        "ReBRAC", "TD3PlusBC",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OFFLINE if getattr(agents, name) in KINDS])
def test_an_offline_agent_takes_a_buffer_that_holds_less_than_the_start_size(name: str) -> None:
    kind = getattr(agents, name)
    kind(**(arguments_of(kind) | TOO_MANY))


@pytest.mark.parametrize("name", ["DQN", "DDPG", "TD3", "SoftActorCritic", "REDQ"])
def test_an_online_agent_does_not(name: str) -> None:
    kind = getattr(agents, name)
    with pytest.raises(ValueError, match=REFUSAL):
        kind(**(arguments_of(kind) | TOO_MANY))


@pytest.mark.parametrize("name", ["BC", "DiscreteCQL"])
def test_an_offline_agent_is_told_when_it_goes_online_and_not_when_it_is_evaluated(name: str) -> None:
    kind = getattr(agents, name)
    agent = kind(**(arguments_of(kind) | TOO_MANY))
    obs, two = spaces.Box(-1, 1, (5 if name == "DiscreteCQL" else 4,), np.float32), spaces.Discrete(2)
    action = two if name == "DiscreteCQL" else spaces.Box(-1, 1, (2,), np.float32)
    with agent.eval_mode():
        agent.dry_run(obs.sample(), action)
    with pytest.raises(ValueError, match=REFUSAL):
        agent.dry_run(obs.sample(), action)


def test_an_offline_agent_is_evaluated_in_a_vector_environment() -> None:
    agent = agents.BC(**(arguments_of(agents.BC) | TOO_MANY))
    env = SerialVectorEnv([ABC(size=2, discrete=False)])
    assert eval_performance(env, agent, None, 1, max_episode_len=2)["length_mean"] <= 2
