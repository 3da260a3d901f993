"""A run in epochs whose numbers depend on every random stream there is, for tests of how it goes on."""

import random
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn

from pfrl_like.algos import EpochDQN
from pfrl_like.experiments import EpochRunner
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.utils import set_random_seed


class Noisy(gymnasium.Wrapper):  # type: ignore[type-arg]
    """Rewards have noise of the environment's own stream, of Python's, NumPy's and torch's; it tells of success."""

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        noise = self.np_random.normal() + random.random() + np.random.normal() + torch.rand(()).item()
        return (
            obs,
            float(reward) + 0.1 * noise,
            terminated,
            truncated,
            {**info, "success": self.np_random.random() < 0.1},
        )


def epoch_runner(outdir: Path, **options: Any) -> EpochRunner:
    """A small run, made the same way every time."""
    env, eval_env = (Noisy(gymnasium.make("CartPole-v1")) for _ in range(2))
    for seed, each in enumerate((env, eval_env)):
        each.reset(seed=seed)
        each.action_space.seed(seed)
    set_random_seed(0)
    qf = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2), DiscreteActionValueHead())
    algorithm = EpochDQN(
        env, None, qf, PrioritizedReplayBuffer(500), steps_per_epoch=3, n_train_steps=4, buffer_batch_size=8,
        min_buffer_size=20, smooth_return=True, use_target=True, target_update_interval=5,
        exploration_policy=ConstantEpsilonGreedy(0.5, env.action_space.sample),
    )  # fmt: skip
    return EpochRunner(algorithm, env, outdir, eval_env=eval_env, eval_n_episodes=2, **options)


def go_on(outdir: str, n_epochs: int, batch_size: int | None) -> None:
    """What a process does that takes up a run."""
    runner = epoch_runner(Path(outdir))
    torch.rand(100)  # whatever a script draws
    runner.restore()
    np.random.random(100)
    runner.train(n_epochs, batch_size)
