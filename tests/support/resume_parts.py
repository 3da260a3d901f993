"""Runs that are made the same way every time and depend on every random stream there is, for tests of `resume`."""

import random
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.envs import make_env
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.utils import set_random_seed


class Noisy(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Rewards have noise of the environment's own stream, of Python's, NumPy's and torch's; it tells of success."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        noise = self.np_random.normal() + random.random() + np.random.normal() + torch.rand(()).item()
        success = self.np_random.random() < 0.1
        return obs, float(reward) + 0.1 * noise, terminated, truncated, {**info, "success": success}


def noisy_env(seed: int, env_id: str = "CartPole-v1") -> Any:
    """CartPole, or another environment, with noise, seeded."""
    return make_env(Noisy(gymnasium.make(env_id)), seed=seed)


def small_dqn(
    env: Any, kind: type[DQN] = DQN, lr: float = 1e-3, q_function: nn.Module | None = None, **options: Any
) -> DQN:
    """An agent; without options it has a replay buffer of priorities and returns over two steps."""
    set_random_seed(0)
    if q_function is None:
        layers = nn.Linear(*env.observation_space.shape, 16), nn.Tanh(), nn.Dropout(0.1)
        q_function = nn.Sequential(*layers, nn.Linear(16, int(env.action_space.n)), DiscreteActionValueHead())
    arguments = {
        "replay_buffer": PrioritizedReplayBuffer(60, num_steps=2), "gamma": 0.9, "replay_start_size": 10,
        "explorer": ConstantEpsilonGreedy(0.5, env.action_space.sample), "minibatch_size": 4,
        "target_update_interval": 15,
    }  # fmt: skip
    return kind(q_function, torch.optim.Adam(q_function.parameters(), lr), **arguments | options)
