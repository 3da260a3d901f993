from typing import Any

import pytest
import torch
from composed_agents import ACTIONS, OBS, RandomEnv, drive, from_source, parameters

from pfrl_like.nn import FactorizedNoisyLinear
from pfrl_like.q_functions import DuelingStreams
from pfrl_like.utils.recurrent import is_recurrent
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import evaluate
from pfrl_like.zoo.value_based import q_learning

SMALL: dict[str, Any] = {"hidden_sizes": (4,), "capacity": 100, "minibatch_size": 3, "replay_start_size": 4}


@pytest.mark.parametrize("name", ["DQN", "CategoricalDQN", "QRDQN", "IQN"])
def test_recurrent_agents_learn(name: str) -> None:
    env = RandomEnv(OBS["vector"], ACTIONS["Discrete"])
    composition = q_learning(name, Spaces(env.observation_space, env.action_space), recurrent=True, **SMALL)
    agent = evaluate(composition, {"env": env})
    assert is_recurrent(agent.model)
    before = parameters(agent)
    drive(agent, env, 12)
    assert torch.isfinite(parameters(agent)).all()
    assert not torch.equal(parameters(agent), before)


def test_learning_rate_of_fractions_is_a_multiple_that_schedules_read() -> None:
    env = RandomEnv(OBS["vector"], ACTIONS["Discrete"])
    composition = q_learning("FQF", Spaces(env.observation_space, env.action_space), lr=1e-3, fraction_lr=0.25, **SMALL)
    others, fractions = evaluate(composition, {"env": env}).optimizer.param_groups
    assert (others["lr"], fractions["lr"], fractions["lr_factor"]) == (1e-3, 2.5e-4, 0.25)


@pytest.mark.parametrize("name", ["DQN", "CategoricalDQN", "QRDQN", "IQN", "FQF"])
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_dueling_agents_have_noise_in_the_two_streams_and_learn(name: str, kind: str) -> None:
    env = RandomEnv(OBS[kind], ACTIONS["Discrete"])
    spaces = Spaces(env.observation_space, env.action_space)
    composition = q_learning(name, spaces, dueling=True, stream_sizes=(5,), noise=0.5, **SMALL)
    torch.manual_seed(0)
    agent = evaluate(composition, {"env": env})
    (streams,) = [module for module in agent.model.modules() if isinstance(module, DuelingStreams)]
    noisy = [module for module in agent.model.modules() if isinstance(module, FactorizedNoisyLinear)]
    assert noisy == [module for module in streams.modules() if isinstance(module, FactorizedNoisyLinear)]
    assert len(noisy) == 4
    torch.manual_seed(0)
    assert torch.equal(parameters(from_source(composition)), before := parameters(agent))
    drive(agent, env, 12)
    assert torch.isfinite(parameters(agent)).all()
    assert not torch.equal(parameters(agent), before)


def test_sizes_of_streams_need_a_dueling_network() -> None:
    env = RandomEnv(OBS["vector"], ACTIONS["Discrete"])
    with pytest.raises(ValueError, match=r"stream_sizes is \(5,\), but dueling is False: set dueling=True"):
        q_learning("DQN", Spaces(env.observation_space, env.action_space), stream_sizes=(5,), **SMALL)
