from typing import Any

import pytest
import torch
from composed_agents import ACTIONS, OBS, RandomEnv, check_learns, from_source, parameters

from pfrl_like.nn import FactorizedNoisyLinear
from pfrl_like.q_functions import DuelingStreams
from pfrl_like.utils.recurrent import is_recurrent
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import evaluate
from pfrl_like.zoo.value_based import q_learning

SMALL: dict[str, Any] = {"hidden_sizes": (4,), "capacity": 100, "minibatch_size": 3, "replay_start_size": 4}


def compose(name: str, obs: str = "vector", **settings: Any) -> Any:
    return q_learning(name, Spaces(OBS[obs], ACTIONS["Discrete"]), **SMALL, **settings)


@pytest.mark.parametrize("name", ["DQN", "CategoricalDQN", "QRDQN", "IQN"])
def test_recurrent_agents_learn(name: str) -> None:
    env = RandomEnv(OBS["vector"], ACTIONS["Discrete"])
    agent = evaluate(compose(name, recurrent=True), {"env": env})
    assert is_recurrent(agent.model)
    check_learns(agent, env, 12)


def test_learning_rate_of_fractions_is_a_multiple_that_schedules_read() -> None:
    env = RandomEnv(OBS["vector"], ACTIONS["Discrete"])
    agent = evaluate(compose("FQF", lr=1e-3, fraction_lr=0.25), {"env": env})
    others, fractions = agent.optimizer.param_groups
    assert (others["lr"], fractions["lr"], fractions["lr_factor"]) == (1e-3, 2.5e-4, 0.25)


@pytest.mark.parametrize("name", ["DQN", "CategoricalDQN", "QRDQN", "IQN", "FQF"])
@pytest.mark.parametrize("kind", ["vector", "image"])
def test_dueling_agents_have_noise_in_the_two_streams_and_learn(name: str, kind: str) -> None:
    env = RandomEnv(OBS[kind], ACTIONS["Discrete"])
    composition = compose(name, kind, dueling=True, stream_sizes=(5,), noise=0.5)
    torch.manual_seed(0)
    agent = evaluate(composition, {"env": env})
    (streams,) = [module for module in agent.model.modules() if isinstance(module, DuelingStreams)]
    noisy = [module for module in agent.model.modules() if isinstance(module, FactorizedNoisyLinear)]
    assert noisy == [module for module in streams.modules() if isinstance(module, FactorizedNoisyLinear)]
    assert len(noisy) == 4
    torch.manual_seed(0)
    assert torch.equal(parameters(from_source(composition)), parameters(agent))
    check_learns(agent, env, 12)


def test_sizes_of_streams_need_a_dueling_network() -> None:
    with pytest.raises(ValueError, match=r"stream_sizes is \(5,\), but dueling is False: set dueling=True"):
        compose("DQN", stream_sizes=(5,))
