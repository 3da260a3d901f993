from typing import Any

import numpy as np
import pytest
import torch
from composed_agents import OBS, RandomEnv, check_learns, from_source, parameters, stored
from gymnasium import spaces
from torch import nn

from pfrl_like import nn as own_nn
from pfrl_like.q_functions import FCSAQFunction, QFunctionEnsemble
from pfrl_like.utils.recurrent import is_recurrent
from pfrl_like.zoo.actor_critics import actor_critic
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Given, evaluate, parts

AGENTS: dict[str, dict[str, Any]] = {
    "SoftActorCritic": {},
    "TQC": {"n_quantiles": 5},
    "REDQ": {"n_critics": 3, "n_times_update": 1},
    "CrossQ": {"policy_update_delay": 1},
    "DiscreteSAC": {},
    "DDPG": {"target_update_interval": 1},
    "TD3": {"policy_update_delay": 1},
}
SMALL: dict[str, Any] = {"hidden_sizes": (4,), "capacity": 100, "minibatch_size": 3, "replay_start_size": 4}
BOX = spaces.Box(-1, 1, (2,), np.float32)


def env_of(name: str, obs: str = "vector") -> RandomEnv:
    return RandomEnv(OBS[obs], spaces.Discrete(3) if name == "DiscreteSAC" else BOX)


def compose(name: str, obs: str = "vector", **settings: Any) -> Any:
    env = env_of(name, obs)
    return actor_critic(name, Spaces(env.observation_space, env.action_space), **SMALL | AGENTS[name] | settings)


def made(name: str, obs: str = "vector", given: dict[str, Any] | None = None, **settings: Any) -> Any:
    torch.manual_seed(0)
    return evaluate(compose(name, obs, **settings), {"env": env_of(name, obs)} | (given or {}))


@pytest.mark.representatives(28)  # of 42: each agent with each kind of observation
@pytest.mark.parametrize("recurrent", [False, True], ids=["feedforward", "recurrent"])
@pytest.mark.parametrize("obs", OBS)
@pytest.mark.parametrize("name", AGENTS)
def test_printed_source_of_a_stored_composition_makes_an_agent_that_acts_and_learns(
    name: str, obs: str, recurrent: bool
) -> None:
    env = env_of(name, obs)
    torch.manual_seed(0)
    agent = from_source(stored(compose(name, obs, recurrent=recurrent)), env=env)
    assert torch.equal(parameters(agent), parameters(made(name, obs, recurrent=recurrent)))
    assert is_recurrent(agent.policy) == recurrent
    check_learns(agent, env, 10)


def linear_sizes(module: nn.Module) -> list[int]:
    return [layer.out_features for layer in module.modules() if isinstance(layer, nn.Linear)]


def test_settings_reach_the_parts() -> None:
    sizes = {"critic_hidden_sizes": (6, 5), "num_steps": 2, "n_critics": 4}
    agent = made("TD3", layer_norm=True, noise=0.3, activation="Tanh", **sizes)
    assert linear_sizes(agent.policy) == [4, 2]
    assert [linear_sizes(critic) for critic in agent.critics] == [[6, 5, 1]] * 4
    assert sum(isinstance(layer, nn.LayerNorm) for layer in agent.q_func2.modules()) == 2
    assert not any(isinstance(layer, nn.ReLU | nn.LayerNorm) for layer in agent.policy.modules())
    assert (agent.explorer.scale, agent.explorer.low, agent.explorer.high) == (0.3, -1, 1)
    assert (agent.replay_buffer.capacity, agent.replay_buffer.num_steps) == (100, 2)


def test_n_step_returns_of_recurrent_agents_are_the_agents() -> None:
    agent = made("SoftActorCritic", recurrent=True, num_steps=3, by_length=False)
    assert agent.num_steps == 3
    assert not agent.replay_buffer.by_length


def test_numbers_of_critics_are_the_papers() -> None:
    assert len(made("REDQ", n_critics=None).critics) == 10
    assert len(made("TQC").critics) == 2


def test_learning_rate_of_the_policy_has_a_factor_that_schedules_read() -> None:
    agent = made("SoftActorCritic", lr=5e-4, policy_lr_factor=0.6, adam_eps=1e-5, adam_betas=[0.5, 0.999])
    (group,) = agent.policy_optimizer.param_groups
    assert (group["lr"], group["eps"], group["betas"]) == (3e-4, 1e-5, (0.5, 0.999))
    assert agent.q_func1_optimizer.param_groups[0]["lr"] == 5e-4
    assert group["lr_factor"] == 0.6


def test_target_entropy_is_minus_the_number_of_dimensions_or_half_of_the_largest() -> None:
    assert made("REDQ").entropy_target == -2
    assert made("DiscreteSAC").entropy_target == pytest.approx(0.5 * np.log(3), abs=1e-3)
    assert made("SoftActorCritic", entropy_target=None).entropy_target is None


def test_critics_of_crossq_have_batch_normalisation_and_no_memory() -> None:
    agent = made("CrossQ", recurrent=True)
    assert is_recurrent(agent.policy)
    for critic in agent.critics:
        assert not is_recurrent(critic)
        assert any(isinstance(layer, nn.BatchNorm1d) for layer in critic.modules())
    assert not any(isinstance(layer, nn.BatchNorm1d) for layer in made("CrossQ", batch_norm=False).q_func1.modules())


def test_random_actions_come_first_unless_told_otherwise() -> None:
    assert made("TD3").burnin_action_func is not None
    assert made("TD3", burnin_action_func=None).burnin_action_func is None


def test_parts_are_replaced() -> None:
    critic = nn.Sequential(own_nn.ConcatObsAndAction(), nn.Linear(5, 1))
    agent = made("DDPG", q_func=Given("q_func"), explorer=parts.explorers.Greedy(), given={"q_func": critic})
    assert agent.q_func is critic
    assert agent.critic_optimizer.param_groups[0]["params"][0] is critic[1].weight
    assert type(agent.explorer).__name__ == "Greedy"
    optimizer = parts.torch.optim.Adam(Given("q_func").parameters(), lr=0.1)
    agent = made("REDQ", q_func2=Given("q_func"), q_func2_optimizer=optimizer, given={"q_func": critic})
    assert agent.critics[1] is critic
    assert agent.q_func2_optimizer.param_groups[0]["lr"] == 0.1
    buffer = parts.replay_buffers.PrioritizedReplayBuffer(50)
    assert made("TQC", replay_buffer=buffer).replay_buffer.capacity == 50


def test_an_ensemble_takes_the_place_of_all_critics() -> None:
    ensemble = QFunctionEnsemble([FCSAQFunction(3, 2, 4, 1) for _ in range(3)])
    agent = made("SoftActorCritic", q_func1=Given("critics"), q_func2=None, given={"critics": ensemble})
    assert [*agent.critics] == [*ensemble.members]


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("DDPG", {"n_critics": 2}, "n_critics is 2, but DDPG has one critic"),
        ("REDQ", {"n_critics": 1}, "n_critics"),
        ("SoftActorCritic", {"hidden_sizes": (), "recurrent": True}, "hidden_sizes is empty"),
    ],
)
def test_settings_that_an_agent_cannot_have_are_refused(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compose(name, **settings)


def test_agents_and_actions_without_a_builder_are_refused() -> None:
    with pytest.raises(ValueError, match="name is 'PPO', expected one of SoftActorCritic, TQC"):
        actor_critic("PPO", Spaces(OBS["vector"], BOX))
    with pytest.raises(ValueError, match=r"the action space is Discrete\(3\), expected a Box of one axis"):
        actor_critic("SoftActorCritic", Spaces(OBS["vector"], spaces.Discrete(3)))
    with pytest.raises(ValueError, match="expected Discrete"):
        actor_critic("DiscreteSAC", Spaces(OBS["vector"], BOX))
