"""Two actors and a learner find the known values of a tiny task."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from on_policy_parts import Table
from torch import nn

from pfrl_like import replay_buffers as buffers
from pfrl_like.agents import DQN
from pfrl_like.experiments import train_agent_actor_learner
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import RecurrentSequential
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.testing import Chain

GAMMA, SIZE = 0.5, 3


def make_env(terminates: bool, process_idx: int, test: bool) -> Chain:
    """Episodes are cut off after five steps, which is no part of the task: the last step bootstraps."""
    env = Chain(SIZE, terminates, time_limit=5)
    env.reset(seed=process_idx)
    return env


def learn(outdir: Path, q_function: nn.Module, buffer: Any, terminates: bool, lr: float = 0.1, **options: Any) -> DQN:
    agent = DQN(
        q_function, torch.optim.Adam(q_function.parameters(), lr=lr), buffer, GAMMA,
        ConstantEpsilonGreedy(1.0, partial(np.random.randint, 2)), replay_start_size=50, minibatch_size=32,
        target_update_interval=20, clip_delta=False, **options,
    )  # fmt: skip
    train_agent_actor_learner(
        agent, partial(make_env, terminates), 10**7, outdir, n_actors=2, n_updates=400, updates_per_step=1.0,
        eval_interval=None, start_method="fork",
    )  # fmt: skip
    assert agent.optim_t == 400
    return agent


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    ("buffer", "terminates"),
    [(buffers.ReplayBuffer, False), (buffers.ReplayBuffer, True), (buffers.PrioritizedReplayBuffer, False)],
)
def test_actors_and_learner_find_the_values(tmp_path: Path, buffer: Any, terminates: bool) -> None:
    q_function = nn.Sequential(Table(np.zeros((SIZE + 1, 2), np.float32)), DiscreteActionValueHead())
    learn(tmp_path, q_function, buffer(10_000), terminates)
    expected = Chain(SIZE, terminates).q_values(GAMMA)[:-1]
    np.testing.assert_allclose(q_function[0].table.detach()[:-1], expected, atol=0.05)


@pytest.mark.slow
def test_returns_over_three_steps_are_those_of_the_random_policy_and_the_bootstrap(tmp_path: Path) -> None:
    # n-step targets are those of the policy that acted: at random, going on or staying. The values then lie between
    # those of the random policy and the optimal ones, and the best action is the same everywhere. Random is
    # V(s) = (gamma V(s) + s + 1 + gamma V(s + 1)) / 2, so V = [18, 28, 32] / 13 for gamma = 1 / 2 and three states in a
    # circle; staying gives gamma V(s), going on s + 1 + gamma V(s + 1). 400 steps leave noise in the returns.
    q_function = nn.Sequential(Table(np.zeros((SIZE + 1, 2), np.float32)), DiscreteActionValueHead())
    learn(tmp_path, q_function, buffers.ReplayBuffer(10_000, num_steps=3), False)
    values, optimal = q_function[0].table.detach().numpy()[:-1], Chain(SIZE, False).q_values(GAMMA)[:-1]
    random = np.array([[9, 13 + 14], [14, 26 + 16], [16, 39 + 9]]) / 13
    assert (values[:, 1] > values[:, 0]).all()
    assert (values < optimal + 0.05).all()
    assert (values > random - 0.4).all()
    assert values.mean() > random.mean() - 0.1


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [buffers.EpisodicReplayBuffer, buffers.PrioritizedEpisodicReplayBuffer])
def test_a_recurrent_network_finds_the_values(tmp_path: Path, buffer: Any) -> None:
    q_function = RecurrentSequential(nn.GRU(SIZE + 1, 16), nn.Linear(16, 2), DiscreteActionValueHead())
    learn(tmp_path, q_function, buffer(10_000), False, lr=0.02, recurrent=True, episodic_update_len=5)
    obs = torch.eye(SIZE + 1)[:SIZE]
    with torch.no_grad():
        values = q_function(nn.utils.rnn.pack_sequence(list(obs[:, None])), None)[0]
    expected = Chain(SIZE, False).q_values(GAMMA)[:-1]
    np.testing.assert_allclose(values.q_values, expected, atol=0.6)
    assert values.greedy_actions.tolist() == [1, 1, 1]
