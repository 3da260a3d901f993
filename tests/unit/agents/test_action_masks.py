"""Action masks count in acting, exploring, storing and targets, wherever they come from."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import AGENTS, make_agent, make_q_function, sparing
from gymnasium import spaces
from registry import made
from torch import nn

from pfrl_like import agents
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents import DQN
from pfrl_like.batch import Batch
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.explorer import Explorer
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer

N_ACTIONS = 4


class MaskedEnv(gymnasium.Env[Any, Any]):
    """Allows two of four actions, others in every step, and raises when a forbidden one is chosen."""

    def __init__(self, where: str) -> None:
        self.where = where
        box = spaces.Box(-10, 10, (5,), np.float32)
        masks = spaces.MultiBinary(N_ACTIONS)
        self.observation_space = spaces.Dict({"x": box, "action_mask": masks}) if where == "obs" else box
        self.action_space = spaces.Discrete(N_ACTIONS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return self.observation(), self.info()

    def step(self, action: Any) -> Any:
        assert self.mask[action], f"action {action} is forbidden by {self.mask}"
        self.t += 1
        return self.observation(), float(action), self.t == 5, False, self.info()

    def observation(self) -> Any:
        self.mask = np.zeros(N_ACTIONS, dtype=np.int8)
        self.mask[[self.t % 4, (self.t + 1) % 4]] = 1
        x = np.full(5, self.t, dtype=np.float32)
        return {"x": x, "action_mask": self.mask} if self.where == "obs" else x

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.mask} if self.where == "info" else {}


class Pick(nn.Module):
    """Takes the vector out of a dict observation."""

    def forward(self, obs: Any) -> Any:
        return obs["x"] if isinstance(obs, dict) else obs


def never() -> int:
    raise AssertionError("random_action_func knows of no mask")


def make_masked_agent(agent: str = "DQN", recurrent: bool = False, epsilon: float = 0.5, **options: Any) -> DQN:
    q_function = make_q_function(agent, recurrent, n_actions=N_ACTIONS)
    layers: Any = q_function if isinstance(q_function, RecurrentSequential) else [q_function]
    q_function = (RecurrentSequential if recurrent else nn.Sequential)(Pick(), *layers)

    explorer = ConstantEpsilonGreedy(epsilon, never)
    return make_agent(agent, recurrent=recurrent, q_function=q_function, explorer=explorer, **options)


def train_in_one_and_in_several(agent: Any, where: str, tmp_path: Any) -> None:
    """The environment raises when a forbidden action is chosen."""
    train_agent(agent, MaskedEnv(where), 40, tmp_path)
    train_agent_batch(agent, gymnasium.vector.SyncVectorEnv([lambda: MaskedEnv(where)] * 3), 45, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("agent", "recurrent", "where"), sparing(itertools.product(AGENTS, [False, True], ["info", "obs"]), (False, "info"))
)
def test_agents_never_choose_a_forbidden_action(agent: str, recurrent: bool, where: str, tmp_path: Any) -> None:
    one = make_masked_agent(agent, recurrent)
    train_in_one_and_in_several(one, where, tmp_path)
    assert one.optim_t > 0
    with one.eval_mode():
        train_agent(one, MaskedEnv(where), 20, tmp_path)


def make_masked_policy_agent(kind: Any, explorer: Any) -> Any:
    """An agent of a policy, for the observations of `MaskedEnv`."""

    def network(n_outputs: int, *head: nn.Module) -> nn.Module:
        return nn.Sequential(Pick(), nn.Linear(5, n_outputs), *head)

    modules = {"policy": network(N_ACTIONS, SoftmaxCategoricalHead())}
    if kind is agents.DiscreteSAC:
        modules |= {f"q_func{i}": network(N_ACTIONS, DiscreteActionValueHead()) for i in (1, 2)}
    if kind is agents.DiscreteAWR:
        modules["v_func"] = network(1)
    agent = made(kind, **modules)
    agent.explorer = explorer
    return agent


@pytest.mark.parametrize("where", ["info", "obs"])
def test_functions_that_act_at_first_keep_to_the_mask_or_are_refused(where: str, tmp_path: Any) -> None:
    def allowed(*, action_mask: Any = None) -> int:
        return int(np.flatnonzero(action_mask)[-1])

    agent = make_masked_policy_agent(agents.DiscreteSAC, None)
    agent.replay_start_size, agent.burnin_action_func = 100, allowed
    train_in_one_and_in_several(agent, where, tmp_path)
    agent.burnin_action_func = spaces.Discrete(N_ACTIONS).sample
    with pytest.raises(TypeError, match="sample has no keyword action_mask, but the environment masks actions"):
        train_agent(agent, MaskedEnv(where), 30, tmp_path)


@pytest.mark.representatives(2)
@pytest.mark.parametrize("where", ["info", "obs"])
@pytest.mark.parametrize("kind", [agents.DiscreteBC, agents.DiscreteAWR, agents.DiscreteSAC])
def test_explorers_of_policies_keep_to_the_mask(kind: Any, where: str, tmp_path: Any) -> None:
    train_in_one_and_in_several(make_masked_policy_agent(kind, ConstantEpsilonGreedy(0.5, never)), where, tmp_path)


class Lowest(Explorer):
    """Takes the first of the allowed actions; chooses for one environment at a time."""

    def select_action(self, t: int, greedy_action_func: Any, action_value: Any = None) -> Any:
        assert action_value.action_mask.shape == (1, N_ACTIONS)
        return int(action_value.action_mask[0].int().argmax())


def test_explorers_for_one_environment_are_told_its_own_row() -> None:
    agent = make_masked_policy_agent(agents.DiscreteBC, Lowest())
    mask = np.arange(N_ACTIONS) >= np.arange(3)[:, None]
    obs = list(np.zeros((3, 5), np.float32))
    assert np.array(agent.batch_act(obs, action_mask=mask)).tolist() == [0, 1, 2]
    assert np.array(agent.batch_act(obs, action_mask=mask[2])).tolist() == [2, 2, 2]


def test_masks_may_begin_to_come_later() -> None:
    agent = make_masked_agent(epsilon=0.0)
    obs = np.zeros(5, dtype=np.float32)
    agent.act(obs)
    agent.observe(obs + 1, 0.0, False, False)
    agent.act(obs + 1, action_mask=[True, False, False, False])
    agent.observe(obs + 2, 0.0, False, False, action_mask=[False, True, False, False])
    batch = agent.replay_buffer.sample_batch(2)
    order = batch.obs[:, 0].argsort()
    assert batch.action_mask[order].int().tolist() == [[1, 1, 1, 1], [1, 0, 0, 0]]  # type: ignore[index]
    assert batch.next_action_mask[order].int().tolist() == [[1, 1, 1, 1], [0, 1, 0, 0]]  # type: ignore[index]


@pytest.mark.parametrize(("num_steps", "expected"), [(1, [0, 1, 1, 0]), (3, [1, 0, 0, 1])])
def test_the_next_mask_is_of_the_state_bootstrapped_from(num_steps: int, expected: list[int], tmp_path: Any) -> None:
    agent = make_masked_agent(replay_buffer=ReplayBuffer(100, num_steps=num_steps))
    train_agent(agent, MaskedEnv("info"), 20, tmp_path)
    batch = agent.replay_buffer.sample_batch(len(agent.replay_buffer))
    first = batch.obs[:, 0] == 0
    assert all(mask.int().tolist() == [1, 1, 0, 0] for mask in batch.action_mask[first])  # type: ignore[index]
    assert all(mask.int().tolist() == expected for mask in batch.next_action_mask[first])  # type: ignore[index]


class Table(nn.Module):
    """Values of every state whose first number is 1: 1, 5, 3, 9."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.tensor([1.0, 5.0, 3.0, 9.0]))

    def forward(self, obs: Any) -> DiscreteActionValue:
        x = obs["x"] if isinstance(obs, dict) else obs
        return DiscreteActionValue(x[:, :1] * self.values)


def test_targets_leave_forbidden_actions_out_where_phi_drops_the_mask() -> None:
    masks = torch.tensor([[1, 0, 1, 0], [1, 1, 0, 0]], dtype=torch.int8)
    obs = {"x": torch.ones(2, 5), "action_mask": masks}
    agents = [make_agent(q_function=Table(), phi=phi) for phi in (None, lambda obs: obs["x"] * 1)]
    batch = Batch(obs, torch.tensor([0, 0]), torch.zeros(2), obs, torch.full((2,), 0.5))
    expected, without = (agent.update(batch)[0] for agent in agents)
    assert without.tolist() == expected.tolist() == [0.5 * 3 - 1, 0.5 * 5 - 1]


def test_a_mask_of_another_size_is_refused() -> None:
    agent = make_masked_agent()
    with pytest.raises(ValueError, match=r"action_mask has shape \(1, 3\), expected \(1, 4\)"):
        agent.act(np.zeros(5, dtype=np.float32), action_mask=[True, True, False])
