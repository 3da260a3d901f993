"""DQN and Double DQN with a Q-function quadratic in continuous actions (NAF), with every buffer."""

import functools
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import BUFFERS, MAKE_BUFFER
from torch import nn

from pfrl_like.action_value import QuadraticActionValue
from pfrl_like.agents import DQN, DoubleDQN
from pfrl_like.experiments import train_agent
from pfrl_like.explorers import AdditiveGaussian
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import FCQuadraticStateQFunction
from pfrl_like.testing import check_agent

ACTIONS = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
BEST = 0.3
QUICK = [(DoubleDQN, "3-step prioritized"), (DQN, "prioritized episodic")]


class Target(gymnasium.Env):
    """Episodes of two steps, with the reward -(a - 0.3)^2 for each; the observation is the step."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,), np.float32)
    action_space = ACTIONS

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.t = 0
        return np.eye(2, dtype=np.float32)[0], {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.eye(2, dtype=np.float32)[self.t % 2], -float((action[0] - BEST) ** 2), self.t == 2, False, {}


class QuadraticHead(nn.Module):
    """Rows of (mu, log of the curvature, v) as action values."""

    def forward(self, x: torch.Tensor) -> QuadraticActionValue:
        return QuadraticActionValue(x[:, :1].tanh(), x[:, 1:2].exp().unsqueeze(2), x[:, 2:], -1.0, 1.0)


def make_naf(kind: type[DQN], buffer: str, recurrent: bool = False, obs_size: int = 2, **options: Any) -> DQN:
    q_function: nn.Module = FCQuadraticStateQFunction(obs_size, 1, 16, 1, ACTIONS)
    if recurrent:
        q_function = RecurrentSequential(nn.GRU(obs_size, 16), nn.Linear(16, 3), QuadraticHead())
        options["episodic_update_len"] = 2
    explorer = AdditiveGaussian(0.5, ACTIONS.low, ACTIONS.high)
    replay_buffer = MAKE_BUFFER[buffer](capacity=1_000)
    options = {"replay_start_size": 50, "target_update_interval": 10, **options}
    optimizer = torch.optim.Adam(q_function.parameters(), lr=0.01)
    return kind(q_function, optimizer, replay_buffer, 0.5, explorer, recurrent=recurrent, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "buffer"),
    [
        pytest.param(kind, buffer, marks=[] if (kind, buffer) in QUICK else pytest.mark.slow)
        for kind in (DQN, DoubleDQN)
        for buffer in (*BUFFERS, "episodic", "prioritized episodic")
    ],
)
def test_the_greedy_action_is_the_best_one(kind: type[DQN], buffer: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    recurrent = buffer.endswith("episodic")
    agent = make_naf(kind, buffer, recurrent, minibatch_size=16, update_interval=2 if recurrent else 1)
    train_agent(agent, Target(), 500, str(tmp_path))
    with agent.eval_mode():
        for obs in np.eye(2, dtype=np.float32):
            np.testing.assert_allclose(agent.act(obs), [BEST], atol=0.1)
            agent.observe(obs, 0.0, False, False)


def test_the_value_of_the_best_action_is_learnt(tmp_path: Path) -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    agent = make_naf(DQN, "uniform", minibatch_size=32)
    train_agent(agent, Target(), 800, str(tmp_path))
    with torch.no_grad():
        value = agent.model(torch.eye(2))
    # at best both steps give 0; an action 0.4 away from it costs 0.16
    np.testing.assert_allclose(value.max, [0.0, 0.0], atol=0.05)
    np.testing.assert_allclose(value.evaluate_actions(torch.full((2, 1), BEST + 0.4)), [-0.16, -0.16], atol=0.06)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DQN, DoubleDQN])
def test_it_keeps_the_contracts(kind: type[DQN]) -> None:
    check_agent(functools.partial(make_naf, kind, "uniform", minibatch_size=4, replay_start_size=10), Target())
