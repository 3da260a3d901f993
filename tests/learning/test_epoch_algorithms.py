"""Algorithms in epochs learn CartPole and Pendulum."""

from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like import experiments, explorers, policies, q_functions, replay_buffers, utils
from pfrl_like import nn as parts
from pfrl_like.algos import EpochDDPG, EpochDQN
from pfrl_like.envs import make_env

pytestmark = pytest.mark.slow
#: Of a return: by targets of one step, values of CartPole's two actions err by more than they differ, and greedy scores
#: fall from 500 to 120 and rise again from epoch to epoch.
N_STEPS = 5


@pytest.fixture(autouse=True)
def one_thread_and_seed() -> None:
    torch.set_num_threads(1)
    utils.set_random_seed(0)


def test_q_learning_in_epochs_learns_cartpole(tmp_path: Path) -> None:
    env = make_env("CartPole-v1", seed=0)
    qf = nn.Sequential(parts.MLP(4, 2, (64, 64)), q_functions.DiscreteActionValueHead())
    algorithm = EpochDQN(
        env, None, qf, replay_buffers.ReplayBuffer(50_000, N_STEPS), use_target=True, target_update_interval=200,
        qf_lr=2e-3, n_train_steps=128, buffer_batch_size=128, min_buffer_size=1_000, reward_scale=0.05,
        exploration_policy=explorers.LinearDecayEpsilonGreedy(1.0, 0.05, 4_000, env.action_space.sample),
    )  # fmt: skip
    runner = experiments.EpochRunner(algorithm, env, tmp_path, eval_n_episodes=0)
    average = runner.train(10, batch_size=256)
    scores = experiments.eval_performance(make_env("CartPole-v1", seed=1), algorithm.agent, None, 10)
    assert average > 150 and scores["mean"] > 195, (average, scores)


def test_a_deterministic_policy_gradient_in_epochs_learns_pendulum(tmp_path: Path) -> None:
    def make_pendulum() -> gymnasium.Env:
        return gymnasium.wrappers.RescaleAction(gymnasium.make("Pendulum-v1"), np.float32(-1), np.float32(1))

    env = make_pendulum()
    env.reset(seed=0)
    policy = nn.Sequential(parts.MLP(3, 1, (64, 64)), nn.Tanh(), policies.DeterministicHead())
    algorithm = EpochDDPG(
        env, policy, q_functions.FCSAQFunction(3, 1, 64, 2), replay_buffers.ReplayBuffer(50_000), use_target=True,
        discount=0.98, policy_lr=1e-3, steps_per_epoch=10, n_train_steps=200, buffer_batch_size=128, reward_scale=0.1,
        min_buffer_size=1_000, exploration_policy=explorers.AdditiveGaussian(0.2, -1.0, 1.0),
    )  # fmt: skip
    average = experiments.EpochRunner(algorithm, env, tmp_path, eval_n_episodes=0).train(6)
    scores = experiments.eval_performance(make_pendulum(), algorithm.agent, None, 10)
    assert average > -500 and scores["mean"] > -300, (average, scores)
