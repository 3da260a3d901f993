"""The builder of the agents that learn from recorded data."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from composed_agents import OBS, from_source, stored

from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments.train_agent_offline import DatasetSource
from pfrl_like.policies import SquashedGaussianHead
from pfrl_like.runs.loop import Clock
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Given, evaluate, names_of, parts
from pfrl_like.zoo.names import is_storable
from pfrl_like.zoo.offline import NAMES, offline
from pfrl_like.zoo.source import statements

N = 40
SMALL: dict[str, Any] = {"hidden_sizes": (8,), "minibatch_size": 4}
CONTINUOUS = [name for name in NAMES if not name.startswith("Discrete")]
WITH_CRITICS = [name for name in CONTINUOUS if name not in ("AWR", "BC", "DecisionTransformer")]


def compose(name: str, obs: str = "vector", **settings: Any) -> Any:
    """A small agent."""
    discrete = name.startswith("Discrete")
    action = gymnasium.spaces.Discrete(2) if discrete else gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    own: dict[str, Any] = {"n_critics": 3} if name == "EDAC" else {}
    if name.endswith("DecisionTransformer"):
        own = {"target_return": 1.0, "context_size": 3, "hidden_size": 8, "n_layers": 1}
    if name.endswith("AWR"):
        own = {"n_critic_updates": 1, "n_actor_updates": 1}
    if name.startswith("PLAS"):
        own = {"rl_start_step": 1}
    return offline(name, Spaces(OBS[obs], action), **SMALL | own | settings)


def made(name: str, obs: str = "vector", **settings: Any) -> Any:
    torch.manual_seed(0)
    return evaluate(compose(name, obs, **settings), {})


def observations(obs: str, n: int) -> list[Any]:
    """Random observations."""
    OBS[obs].seed(0)
    return [OBS[obs].sample() for _ in range(n)]


def recorded(name: str, obs: str = "vector") -> MDPDataset:
    """Random data."""
    rng, rows = np.random.default_rng(0), observations(obs, N)
    columns: Any = {key: np.stack([row[key] for row in rows]) for key in rows[0]} if obs == "Dict" else np.stack(rows)
    actions = rng.integers(0, 2, N) if name.startswith("Discrete") else rng.uniform(-1, 1, (N, 2)).astype(np.float32)
    return MDPDataset.from_arrays(columns, actions, rng.normal(size=N), np.arange(N) % 10 == 9)


def learn(agent: Any, data: MDPDataset, updates: int = 3) -> None:
    source, clock = DatasetSource(agent, data), Clock(updates)
    for _ in range(updates):
        source.tick(clock)


def networks(agent: Any) -> dict[str, torch.Tensor]:
    """All parameters."""
    modules = {name: getattr(agent, name) for name in agent.saved_attributes}
    modules = {name: part for name, part in modules.items() if isinstance(part, torch.nn.Module)}
    return torch.nn.ModuleDict(modules).state_dict()


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[key]) for key, value in one.items())


@pytest.mark.parametrize("obs", ["vector", "Dict"])
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_learns_from_data_and_acts(name: str, obs: str) -> None:
    agent = made(name, obs)
    before = {key: value.clone() for key, value in networks(agent).items()}
    learn(agent, recorded(name, obs))
    assert type(agent).__name__ == name
    assert agent.optim_t == 3
    assert all(math.isfinite(value) for key, value in agent.get_statistics() if "loss" in key)
    assert any(not torch.equal(value, before[key]) for key, value in networks(agent).items())
    with agent.eval_mode():
        actions = np.asarray(agent.batch_act(observations(obs, 2)))
    assert actions.shape == ((2,) if name.startswith("Discrete") else (2, 2))
    assert np.isfinite(actions).all()


@pytest.mark.parametrize("name", NAMES)
def test_printed_source_and_stored_composition_make_the_same_agent(name: str) -> None:
    composition = compose(name)
    assert all(map(is_storable, names_of(composition)))
    expected = networks(made(name))
    torch.manual_seed(0)
    assert same(networks(from_source(stored(composition))), expected)


@pytest.mark.parametrize("name", WITH_CRITICS)
def test_targets_have_the_entropy_and_the_number_of_critics_of_the_papers(name: str) -> None:
    agent = made(name)
    assert len(agent.critics) == (3 if name == "EDAC" else 2)
    soft = name in ("BEAR", "COMBO", "CQL", "CalQL", "EDAC")
    assert getattr(agent, "entropy_target", None) == (-2 if soft else None)


@pytest.mark.parametrize("name", ["AWAC", "IQL"])
def test_an_update_has_the_numbers_of_the_benchmark_of_offline_agents(name: str, script: Any) -> None:
    ours, settings = script("offline_tasks.ours"), script("offline_tasks.settings").settings_of(name, hidden=(8,))
    options = {"soft_update_tau": settings["tau"], **{key: settings[key] for key in ours._OPTIONS if key in settings}}
    agents = made(name, gamma=settings["gamma"], **options), ours.make_agent(name, 3, 2, settings)
    agents[1].load_state_dict(agents[0].state_dict())
    batch = recorded(name).sample_batch(8, 0.99, rng=np.random.default_rng(0))
    for agent in agents:
        torch.manual_seed(0)
        for _ in range(3):
            agent.update(batch)
    assert same(*map(networks, agents))


def test_edac_has_ten_critics_by_default() -> None:
    assert "q_func10 = " in "\n".join(statements(compose("EDAC", n_critics=None), "agent = "))


@pytest.mark.parametrize("name", NAMES)
def test_observations_are_standardised_for_all_networks(name: str) -> None:
    mean, std = [1.0, -2.0, 0.5], [2.0, 0.5, 1.0]
    plain = made(name)
    standardised = made(name, obs_mean=np.float32(mean), obs_std=std)
    one = np.float32([0.3, 0.7, -1.0])
    original = np.float32(std) * one + np.float32(mean)
    result = []
    for agent, obs in ((plain, one), (standardised, original)):
        torch.manual_seed(0)
        with agent.eval_mode():
            result.append(agent.batch_act([obs]))
    np.testing.assert_allclose(*result, rtol=1e-5)
    source = "\n".join(statements(compose(name, obs_mean=mean, obs_std=std), "agent = "))
    assert source.count("Standardize(") == 1


@pytest.mark.parametrize("name", ["AWR", "BC", "DiscreteCQL", "IQL"])
def test_recurrent_agents_learn_from_data(name: str) -> None:
    agent = made(name, recurrent=True)
    learn(agent, recorded(name), 1)
    assert agent.optim_t == 1


def test_a_composition_replaces_a_part() -> None:
    policy = torch.nn.Sequential(torch.nn.Linear(3, 4), SquashedGaussianHead())
    buffer = parts.replay_buffers.ReplayBuffer(7)
    composition = compose("IQL", policy=Given("policy"), replay_buffer=buffer, imitator_lr=1.0)
    agent = evaluate(composition, {"policy": policy})
    assert agent.policy is policy
    assert agent.policy_optimizer.param_groups[0]["params"] == [*policy.parameters()]
    assert agent.replay_buffer.capacity == 7


def test_learning_rates_are_those_of_their_networks() -> None:
    agent = made("BCQ", actor_lr=0.1, critic_lr=0.2, imitator_lr=0.3, adam_eps=1e-3)
    names = ("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer", "imitator_optimizer")
    groups = [getattr(agent, name).param_groups[0] for name in names]
    assert [group["lr"] for group in groups] == [0.1, 0.2, 0.2, 0.3]
    assert {group["eps"] for group in groups} == {1e-3}


def test_discrete_bcq_trains_its_imitator_with_the_q_function() -> None:
    agent = made("DiscreteBCQ", critic_lr=0.2)
    (group,) = agent.optimizer.param_groups
    assert group["lr"] == 0.2
    assert {*map(id, group["params"])} == {id(p) for part in (agent.model, agent.imitator) for p in part.parameters()}


@pytest.mark.parametrize(
    ("name", "settings", "text"),
    [
        ("DQN", {}, "name is 'DQN', expected one of "),
        ("DecisionTransformer", {"target_return": None}, "target_return is missing"),
        ("CQL", {"obs_mean": [0.0] * 3}, "obs_std is None, expected a list of one number for each of Box"),
        ("CQL", {"obs_mean": [0.0] * 2, "obs_std": [1.0] * 3}, "obs_mean is .*, expected a list"),
        ("EDAC", {"n_critics": 1}, "n_critics is 1, expected an integer from 2 on"),
    ],
)
def test_bad_settings_are_named(name: str, settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        compose(name, **settings)


def test_kinds_of_actions_are_checked() -> None:
    discrete, box = gymnasium.spaces.Discrete(2), gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    with pytest.raises(ValueError, match="the action space is Discrete"):
        offline("CQL", Spaces(OBS["vector"], discrete))
    with pytest.raises(ValueError, match="the action space is Box"):
        offline("DiscreteBC", Spaces(OBS["vector"], box))


def test_a_script_with_many_means_has_few_lines() -> None:
    numbers = [*np.linspace(-1e-5, 1, 376).tolist()]
    space = gymnasium.spaces.Box(-1, 1, (376,), np.float32)
    actions = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    composition = offline("BC", Spaces(space, actions), obs_mean=numbers, obs_std=np.ones(376))
    lines = statements(composition, "return ")
    assert len(lines) < 150
    assert max(map(len, lines)) <= 120
    assert from_source(composition).policy[0].mean.tolist() == np.float32(numbers).tolist()
