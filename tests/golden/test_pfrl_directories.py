"""Agents that PFRL 0.4.0 saved: parameters and optimisers load, and the networks give the values that PFRL gave."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import agents, q_functions
from pfrl_like.agent import AttributeSavingMixin
from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.nn import MLPBN, ConcatObsAndAction, RecurrentSequential
from pfrl_like.optimizers import RMSpropEpsInsideSqrt
from pfrl_like.policies import DeterministicHead, SquashedGaussianHead
from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer

DATA = Path(__file__).parents[1] / "data"


class Holder(AttributeSavingMixin):
    """The three attributes of PFRL's DQN, with a network written in plain PyTorch."""

    saved_attributes = ("model", "target_model", "optimizer")

    def __init__(self, make: Any, optimizer: type[torch.optim.Optimizer]) -> None:
        self.model, self.target_model = make(), make()
        self.optimizer = optimizer(self.model.parameters(), lr=0.5)  # type: ignore[call-arg]


class Prefixed(nn.Module):
    """A module under another name, where PFRL's classes wrap one."""

    def __init__(self, prefix: str, module: nn.Module) -> None:
        super().__init__()
        self.inner = prefix
        setattr(self, prefix, module)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return getattr(self, self.inner)(x)


class Mlp(nn.Module):
    """Two layers under the names of PFRL's MLP."""

    def __init__(self, n_hidden: int, n_out: int) -> None:
        super().__init__()
        self.hidden_layers = nn.ModuleList([nn.Linear(4, n_hidden)])
        self.output = nn.Linear(n_hidden, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.output(torch.relu(self.hidden_layers[0](x)))


class Categorical(nn.Module):
    """Mean of five atoms from -2 to 2, under the names of PFRL's distributional Q-function."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("z_values", torch.zeros(5))
        self.model = nn.Sequential(Mlp(8, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.model(x).reshape(-1, 2, 5).softmax(2) * self.z_values).sum(2)


class Recurrent(nn.Sequential):
    """One sequence through linear, ReLU, LSTM, linear."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 8), nn.ReLU(), nn.LSTM(8, 8), nn.Linear(8, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden, _ = self[2](self[1](self[0](x)))
        return self[3](hidden)


CASES = {
    "dqn": (lambda: Prefixed("model", Mlp(16, 2)), torch.optim.Adam),
    "categorical_dqn": (Categorical, torch.optim.Adam),
    "recurrent_dqn": (Recurrent, torch.optim.RMSprop),
}


@pytest.mark.parametrize("case", CASES)
def test_values_and_actions_are_those_of_pfrl(case: str) -> None:
    expected = json.loads((DATA / f"pfrl_0_4_{case}.json").read_text())
    agent = Holder(*CASES[case])
    agent.load(DATA / f"pfrl_0_4_{case}")
    with torch.no_grad():
        q_values = agent.model(torch.tensor(expected["observations"])).numpy()
    np.testing.assert_allclose(q_values, expected["q_values"], rtol=1e-5, atol=1e-6)
    assert q_values.argmax(1).tolist() == expected["greedy_actions"]


def agent_of(case: str) -> Any:
    """The library's own agent, built as the script built PFRL's."""
    if case == "recurrent_dqn":
        layers = nn.Linear(4, 8), nn.ReLU(), nn.LSTM(8, 8), nn.Linear(8, 2)
        model: nn.Module = RecurrentSequential(*layers, q_functions.DiscreteActionValueHead())
        optimizer: torch.optim.Optimizer = torch.optim.RMSprop(model.parameters())
    elif case == "categorical_dqn":
        model = q_functions.DistributionalFCStateQFunctionWithDiscreteAction(
            4, 2, 5, -2, 2, n_hidden_channels=8, n_hidden_layers=1
        )
        optimizer = torch.optim.Adam(model.parameters())
    else:
        model = q_functions.FCStateQFunctionWithDiscreteAction(4, 2, n_hidden_channels=16, n_hidden_layers=1)
        optimizer = torch.optim.Adam(model.parameters())
    kind = agents.CategoricalDQN if case == "categorical_dqn" else agents.DQN
    recurrent = case == "recurrent_dqn"
    buffer = EpisodicReplayBuffer(100) if recurrent else ReplayBuffer(100)
    options = {"replay_start_size": 10, "minibatch_size": 4, "recurrent": recurrent}
    return kind(model, optimizer, buffer, 0.99, Greedy(), **options)


@pytest.mark.parametrize("case", CASES)
def test_the_librarys_agents_act_as_pfrls_did(case: str) -> None:
    expected = json.loads((DATA / f"pfrl_0_4_{case}.json").read_text())
    agent = agent_of(case)
    agent.load(DATA / f"pfrl_0_4_{case}")
    with agent.eval_mode():
        actions = [int(agent.act(np.float32(obs))) for obs in expected["observations"]]
    assert actions == expected["greedy_actions"]


@pytest.mark.parametrize("case", CASES)
def test_the_optimiser_goes_on_where_it_was(case: str) -> None:
    agent = Holder(*CASES[case])
    agent.load(DATA / f"pfrl_0_4_{case}")
    assert agent.optimizer.param_groups[0]["lr"] in (1e-2, 1e-3)
    steps = {int(state["step"]) for state in agent.optimizer.state.values()}
    assert len(steps) == 1
    agent.model(torch.zeros(8, 4)).sum().backward()
    agent.optimizer.step()
    assert {int(state["step"]) for state in agent.optimizer.state.values()} == {steps.pop() + 1}


def test_what_was_loaded_from_pfrl_is_saved_for_pfrl(tmp_path: Path) -> None:
    agent = Holder(*CASES["dqn"])
    agent.load(DATA / "pfrl_0_4_dqn")
    agent.save(tmp_path)
    for name in ("model", "target_model"):
        ours, theirs = (
            torch.load(folder / f"{name}.pt", weights_only=True) for folder in (tmp_path, DATA / "pfrl_0_4_dqn")
        )
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def agent_with_normalisation() -> agents.DQN:
    """Batch normalisation, learnt by the RMSprop of the paper."""
    model = nn.Sequential(MLPBN(4, 2, [8]), q_functions.DiscreteActionValueHead())
    return agents.DQN(model, RMSpropEpsInsideSqrt(model.parameters()), ReplayBuffer(100), 0.9, Greedy(), **SMALL)


def agent_of_continuous_actions() -> agents.DQN:
    """NAF with Double DQN."""
    bounds = gymnasium.spaces.Box(np.float32([-1, 0]), np.float32([1, 4]))
    model = q_functions.FCQuadraticStateQFunction(4, 2, 8, 1, bounds)
    return agents.DoubleDQN(model, torch.optim.Adam(model.parameters()), ReplayBuffer(100), 0.9, Greedy(), **SMALL)


def agent_with_targets_of_its_own(name: str) -> agents.DQN:
    """Advantage learning, its persistent form, or dynamic policy programming."""
    model = q_functions.FCStateQFunctionWithDiscreteAction(4, 2, n_hidden_channels=16, n_hidden_layers=1)
    return getattr(agents, name)(model, torch.optim.Adam(model.parameters()), ReplayBuffer(100), 0.9, Greedy(), **SMALL)


SMALL: dict[str, Any] = {"replay_start_size": 10, "minibatch_size": 4}
WHOLE_AGENTS = {
    "bn_dqn": agent_with_normalisation,
    "naf": agent_of_continuous_actions,
    **{name.lower(): partial(agent_with_targets_of_its_own, name) for name in ("AL", "PAL", "DPP")},
}


@pytest.mark.parametrize("case", WHOLE_AGENTS)
def test_agents_act_and_value_as_pfrls_did(case: str) -> None:
    expected = json.loads((DATA / f"pfrl_0_4_{case}.json").read_text())
    agent = WHOLE_AGENTS[case]()
    agent.load(DATA / f"pfrl_0_4_{case}")
    with agent.eval_mode():
        actions = [agent.act(np.float32(obs)) for obs in expected["observations"]]
    np.testing.assert_allclose(actions, expected["greedy_actions"], rtol=1e-5, atol=1e-6)
    agent.model.eval()
    with torch.no_grad():
        value = agent.model(torch.tensor(expected["observations"]))
        q = value.evaluate_actions(torch.tensor(expected["actions"])) if case == "naf" else value.q_values
    np.testing.assert_allclose(q, expected["q_values"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", WHOLE_AGENTS)
def test_their_learning_goes_on(case: str) -> None:
    agent = WHOLE_AGENTS[case]()
    agent.load(DATA / f"pfrl_0_4_{case}")
    (before,) = {int(state["step"]) for state in agent.optimizer.state.values()}
    batch = Batch(
        obs=torch.randn(8, 4),
        action=torch.rand(8, 2) if case == "naf" else torch.zeros(8, dtype=torch.int64),
        reward=torch.randn(8),
        next_obs=torch.randn(8, 4),
        discount=torch.full((8,), 0.9),
    )
    agent.update(batch)
    assert before > 100
    assert {int(state["step"]) for state in agent.optimizer.state.values()} == {before + 1}


def actor_critic(case: str) -> agents.OffPolicyAgent:
    """DDPG, TD3 or Soft Actor-Critic, built as the script built PFRL's."""

    def network(n_inputs: int, n_outputs: int) -> list[nn.Module]:
        return [nn.Linear(n_inputs, 16), nn.ReLU(), nn.Linear(16, n_outputs)]

    last = [SquashedGaussianHead()] if case == "sac" else [nn.Tanh(), DeterministicHead()]
    policy = nn.Sequential(*network(4, 4 if case == "sac" else 2), *last)
    n_critics = 1 if case == "ddpg" else 2
    critics = [nn.Sequential(ConcatObsAndAction(), *network(6, 1)) for _ in range(n_critics)]
    optimizers = [torch.optim.Adam(part.parameters()) for part in (policy, *critics)]
    parts = [policy, *critics, *optimizers, ReplayBuffer(100), 0.9]
    if case == "sac":
        return agents.SoftActorCritic(*parts, entropy_target=-2.0, **SMALL)
    return {"ddpg": agents.DDPG, "td3": agents.TD3}[case](*parts, Greedy(), **SMALL)


@pytest.mark.parametrize("case", ["ddpg", "td3", "sac"])
def test_actor_critics_act_value_and_learn_on_as_pfrls_did(case: str) -> None:
    expected = json.loads((DATA / f"pfrl_0_4_{case}.json").read_text())
    agent: Any = actor_critic(case)
    agent.load(DATA / f"pfrl_0_4_{case}")
    obs, action = torch.tensor(expected["observations"]), torch.tensor(expected["actions"])
    with agent.eval_mode():
        actions = agent.batch_act([*obs.numpy()])
    np.testing.assert_allclose(actions, expected["greedy_actions"], rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        q = agent.critics[0]((obs, action)).flatten()
    np.testing.assert_allclose(q, expected["q_values"], rtol=1e-5, atol=1e-6)
    step = agent.gradient_steps[next(iter(agent._critics_of_optimizers))].optimizer
    assert {int(state["step"]) for state in step.state.values()} == {30}
    agent.update(Batch(obs, action, torch.ones(5), obs, torch.full((5,), 0.9)))
    assert {int(state["step"]) for state in step.state.values()} == {31}
    if case == "sac":
        assert agent.temperature == pytest.approx(0.741, abs=0.02)
