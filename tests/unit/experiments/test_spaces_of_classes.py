"""Runs whose actions are drawn from a space that belongs to the class of the environment go on bit for bit."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.algos import EpochDQN
from pfrl_like.experiments import EpochRunner, train_agent
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils import set_random_seed


class Shared(gymnasium.Env):  # type: ignore[type-arg]
    """Episodes of six steps that count, with spaces of the class."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.array([1.0, self.t], np.float32), 1.0 + 0.1 * int(action), self.t == 6, False, {}


def parts() -> Any:
    """What a process makes that starts anew."""
    set_random_seed(0)
    env = Shared()
    env.reset(seed=0)
    env.action_space.seed(0)
    q_function = nn.Sequential(nn.Linear(2, 2), DiscreteActionValueHead())
    return env, q_function, ReplayBuffer(999), ConstantEpsilonGreedy(0.5, lambda: env.action_space.sample())


def steps(outdir: Path, share: float, resume: bool = False) -> Any:
    env, q_function, buffer, explorer = parts()
    optimizer = torch.optim.Adam(q_function.parameters())
    agent = DQN(q_function, optimizer, buffer, 0.9, explorer, replay_start_size=8, minibatch_size=4)
    train_agent(agent, env, int(60 * share), outdir, checkpoint_freq=30, resume=resume)
    return q_function


def epochs(outdir: Path, share: float, resume: bool = False, restore: bool = False) -> Any:
    env, q_function, buffer, explorer = parts()
    algorithm = EpochDQN(
        env, None, q_function, buffer, exploration_policy=explorer, min_buffer_size=8, buffer_batch_size=4,
        n_train_steps=3, steps_per_epoch=2,
    )  # fmt: skip
    runner = EpochRunner(algorithm, env, outdir, eval_n_episodes=0)
    if restore:
        runner.restore()
    runner.train(int(4 * share), resume=resume)
    return q_function


def restored(outdir: Path, share: float, resume: bool = False) -> Any:
    return epochs(outdir, share, restore=resume)


@pytest.mark.parametrize("run", [steps, epochs, restored])
def test_actions_drawn_through_a_function_go_on(run: Any, tmp_path: Path) -> None:
    wanted = run(tmp_path / "whole", 1)
    run(tmp_path / "parts", 0.5)
    found = run(tmp_path / "parts", 1, resume=True)
    assert all(map(torch.equal, found.parameters(), wanted.parameters()))
