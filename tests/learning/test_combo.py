"""COMBO learns, from random actions and a model that was fitted to them, to keep a point near zero."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agents import COMBO
from pfrl_like.dataset import MDPDataset
from pfrl_like.dynamics import MOPO, ModelRollouts
from pfrl_like.nn import ConcatObsAndAction
from pfrl_like.policies import SquashedGaussianHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.utils import set_random_seed

LENGTH = 10


def play(choose: Any, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Observations [n, 11, 1], actions and rewards [n, 10] of n episodes: x' = x + 0.5 a and noise, reward -x'^2."""
    x = rng.uniform(-2, 2, n)
    observations, actions, rewards = [x], [], []
    for _ in range(LENGTH):
        action = choose(x[:, None].astype(np.float32))
        x = x + 0.5 * action + rng.normal(0, 0.05, n)
        observations, actions, rewards = [*observations, x], [*actions, action], [*rewards, -(x**2)]
    return np.stack(observations, 1)[..., None].astype(np.float32), np.stack(actions, 1), np.stack(rewards, 1)


def recorded(n: int, rng: np.random.Generator) -> MDPDataset:
    observations, actions, rewards = play(lambda x: rng.uniform(-1, 1, len(x)), n, rng)
    ends = np.tile(np.arange(LENGTH) == LENGTH - 1, n)
    columns = observations[:, :-1].reshape(-1, 1), actions.reshape(-1, 1).astype(np.float32), rewards.ravel()
    return MDPDataset.from_arrays(*columns, np.zeros(n * LENGTH), ends, observations[:, 1:].reshape(-1, 1))


def layers(n_in: int, n_out: int) -> list[nn.Module]:
    return [nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, n_out)]


def make() -> COMBO:
    policy = nn.Sequential(*layers(1, 2), SquashedGaussianHead())
    critics = [nn.Sequential(ConcatObsAndAction(), *layers(2, 1)) for _ in range(2)]
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (policy, *critics)]
    return COMBO(
        policy, *critics, *optimizers, ReplayBuffer(), gamma=0.9, initial_temperature=0.05, alpha_threshold=None,
        initial_alpha=0.1, n_action_samples=4, soft_update_tau=0.02,
    )  # fmt: skip


def mean_return(agent: COMBO) -> float:
    def choose(x: np.ndarray) -> np.ndarray:
        with agent.eval_mode():
            return np.asarray(agent.batch_act(list(x)))[:, 0]

    return float(play(choose, 100, np.random.default_rng(1))[2].sum(1).mean())


@pytest.mark.slow
def test_combo_learns_from_random_actions_and_a_model_of_them() -> None:
    set_random_seed(0)
    dataset = recorded(30, np.random.default_rng(0))
    mopo = MOPO(n_ensembles=2, encoder_params={"hidden_units": [32, 32]}, learning_rate=3e-3)
    mopo.fit(dataset, n_epochs=60, save_metrics=False, verbose=False, show_progress=False)
    agent = make()
    before = mean_return(agent)
    source = ModelRollouts(dataset, mopo.impl, agent, n_transitions=100, horizon=3, interval=250)
    for _ in range(300):
        agent.update(source.sample_batch(64, agent.gamma))

    random = recorded(200, np.random.default_rng(2))
    of_random = np.mean([episode.compute_return() for episode in random])
    # straight to zero at full speed, then noise alone
    best = play(lambda x: np.clip(-2 * x[:, 0], -1, 1), 100, np.random.default_rng(1))[2].sum(1).mean()
    after = mean_return(agent)
    assert after > max(before, of_random) + 0.8 * (best - max(before, of_random))
