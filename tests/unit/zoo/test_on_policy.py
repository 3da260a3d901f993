from pathlib import Path
from typing import Any

import pytest
import torch
from composed_agents import ACTIONS, OBS, RandomEnv, check_learns, drive, from_source, parameters, stored
from torch import nn

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.nn import EmpiricalNormalization
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Given, evaluate, parts
from pfrl_like.zoo.on_policy import acer, on_policy
from pfrl_like.zoo.source import statements

AGENTS: dict[str, dict[str, Any]] = {
    "PPO": {"update_interval": 4, "minibatch_size": 2, "epochs": 1},
    "TRPO": {"update_interval": 4, "vf_batch_size": 2, "vf_epochs": 1},
    "A2C": {"update_steps": 4},
    "IMPALA": {"update_interval": 4},
    "APPO": {"update_interval": 4, "minibatch_size": 2, "epochs": 1},
    "REINFORCE": {},
    "A3C": {"t_max": 4},
    "ACER": {"t_max": 4, "replay_start_size": 4, "n_times_replay": 2},
}
CASES = [
    (name, obs, action, recurrent)
    for name in AGENTS
    for obs in OBS
    for action in ACTIONS
    for recurrent in (False, True)
    if name != "ACER" or not action.startswith("Multi")
]


def compose(name: str, obs: str = "vector", action: str = "Discrete", **settings: Any) -> Any:
    builder = acer if name == "ACER" else on_policy
    spaces = Spaces(OBS[obs], ACTIONS[action])
    return builder(name, spaces, **{"hidden_sizes": (4,), **AGENTS[name], **settings})


def made(name: str, obs: str = "vector", action: str = "Discrete", **settings: Any) -> Any:
    torch.manual_seed(0)
    return evaluate(compose(name, obs, action, **settings), {})


@pytest.mark.representatives(44)  # of 132: each agent with each kind of observation, and each kind of action twice
@pytest.mark.parametrize(("name", "obs", "action", "recurrent"), CASES)
def test_printed_source_of_a_stored_composition_makes_an_agent_that_acts_and_learns(
    name: str, obs: str, action: str, recurrent: bool
) -> None:
    torch.manual_seed(0)
    agent = from_source(stored(compose(name, obs, action, recurrent=recurrent)))
    assert torch.equal(parameters(agent), parameters(made(name, obs, action, recurrent=recurrent)))
    assert (agent.recurrent_memory is not None) == recurrent
    check_learns(agent, RandomEnv(OBS[obs], ACTIONS[action]))


@pytest.mark.parametrize("action", ACTIONS)
def test_actions_in_a_runner_are_contained_in_their_space(action: str, tmp_path: Path) -> None:
    env, agent = RandomEnv(OBS["vector"], ACTIONS[action]), made("PPO", action=action)
    if action.startswith("Multi"):
        train_agent_batch(agent, SerialVectorEnv([env]), 5, tmp_path)
    else:
        train_agent(agent, env, 5, tmp_path)
    assert env.t == 5


@pytest.mark.parametrize("name", ["A3C", "ACER"])
def test_copies_for_other_processes_share_memory(name: str) -> None:
    for action in ("Discrete", "Box"):
        agent = made(name, "image", action)
        for attribute in agent.shared_attributes:
            if isinstance(getattr(agent, attribute), nn.Module):
                getattr(agent, attribute).share_memory()
        drive(agent, RandomEnv(OBS["image"], ACTIONS[action]))
        assert all(param.is_shared() for param in agent.shared_model.parameters())


def test_policy_begins_with_nearly_equal_probabilities() -> None:
    model = made("PPO", hidden_sizes=(64, 64)).model
    distribution, value = model(torch.rand(8, 3))
    torch.testing.assert_close(distribution.probs, torch.full((8, 3), 1 / 3), atol=0.01, rtol=0)
    assert value.abs().max() > 0.05


def test_networks_of_images_have_one_body_and_those_of_vectors_are_separate() -> None:
    lines = "\n".join(statements(compose("PPO", "image"), "return "))
    assert lines.count("Conv2d") == 1
    assert "\n".join(statements(compose("TRPO", "image"), "return ")).count("Conv2d") == 2
    assert "\n".join(statements(compose("PPO", "vector"), "return ")).count("nn.Tanh()") == 2


def test_observations_are_normalized_for_vectors_only() -> None:
    agent = made("PPO", normalize=True)
    assert isinstance(agent.obs_normalizer, EmpiricalNormalization)
    drive(agent, RandomEnv(OBS["vector"], ACTIONS["Discrete"]))
    assert agent.obs_normalizer.count == 4
    for name, obs in (("A2C", "vector"), ("PPO", "image"), ("TRPO", "Dict")):
        with pytest.raises(ValueError, match=f"normalize is True for {name} .* set normalize=False"):
            compose(name, obs, normalize=True)


@pytest.mark.parametrize("name", AGENTS)
def test_evaluation_takes_the_most_probable_action_unless_told_otherwise(name: str) -> None:
    assert made(name).act_deterministically
    assert not made(name, act_deterministically=False).act_deterministically


def test_parts_are_replaced() -> None:
    policy = nn.Sequential(nn.Flatten(), nn.Linear(25, 3), evaluate(parts.policies.SoftmaxCategoricalHead(), {}))
    for name in ("PPO", "TRPO", "REINFORCE"):
        agent = evaluate(compose(name, "image", policy=Given("policy")), {"policy": policy})
        assert policy in [*agent.model.modules()]
    vf = parts.nn.Linear(3, 1)
    optimizer = parts.torch.optim.Adam(vf.parameters(), lr=0.1)
    agent = evaluate(compose("TRPO", vf=vf, optimizer=optimizer), {})
    assert agent.vf_optimizer.param_groups[0]["lr"] == 0.1
    assert isinstance(agent.vf, nn.Linear)
    model = parts.agents.acer.ACERDiscreteActionHead(Given("policy"), parts.q_functions.DiscreteActionValueHead())
    agent = evaluate(compose("ACER", model=model), {"policy": policy})
    assert agent.shared_model.pi is policy


@pytest.mark.parametrize(
    ("name", "part"), [("TRPO", "model"), ("REINFORCE", "vf"), ("PPO", "q_function"), ("A3C", "capacity")]
)
def test_part_that_an_agent_does_not_have_is_refused(name: str, part: str) -> None:
    with pytest.raises(TypeError, match=part):
        evaluate(compose(name, **{part: parts.nn.Identity()}), {})


def test_spaces_without_a_policy_are_refused() -> None:
    with pytest.raises(ValueError, match="expected Discrete or a Box of one axis for ACER"):
        compose("ACER", action="MultiBinary")
    with pytest.raises(ValueError, match="expected MultiDiscrete or MultiBinary of one axis"):
        on_policy("PPO", Spaces(OBS["vector"], OBS["Dict"]))
    with pytest.raises(ValueError, match="hidden_sizes is empty"):
        compose("PPO", hidden_sizes=(), recurrent=True)
