"""A run in epochs whose numbers depend on every random stream there is, for tests of how it goes on."""

from pathlib import Path
from typing import Any

from resume_parts import noisy_env
from torch import nn

from pfrl_like.algos import EpochDQN
from pfrl_like.experiments import EpochRunner
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import PrioritizedReplayBuffer
from pfrl_like.utils import set_random_seed


def epoch_runner(outdir: Path, **options: Any) -> EpochRunner:
    """A small run, made the same way every time."""
    env, eval_env = map(noisy_env, range(2))
    set_random_seed(0)
    qf = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 2), DiscreteActionValueHead())
    algorithm = EpochDQN(
        env, None, qf, PrioritizedReplayBuffer(500), steps_per_epoch=3, n_train_steps=4, buffer_batch_size=8,
        min_buffer_size=20, smooth_return=True, use_target=True, target_update_interval=5,
        exploration_policy=ConstantEpsilonGreedy(0.5, env.action_space.sample),
    )  # fmt: skip
    return EpochRunner(algorithm, env, outdir, eval_env=eval_env, eval_n_episodes=2, **options)
