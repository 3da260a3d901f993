"""The games of MinAtar, as the example and the benchmark play them, reach agents and replay buffers unchanged."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.agents import DQN
from pfrl_like.experiments import train_agent
from pfrl_like.explorers import ConstantEpsilonGreedy
from pfrl_like.nn import Lambda
from pfrl_like.q_functions import DiscreteActionValueHead
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.testing import check_env

pytest.importorskip("minatar.gym").register_envs()
#: Channels and actions that do something, by arXiv:1903.03176, section 3.
GAMES = {"Asterix": (4, 5), "Breakout": (4, 3), "Freeway": (7, 3), "Seaquest": (10, 6), "SpaceInvaders": (6, 4)}
PADDLE, BALL = 0, 1  # channels of Breakout
LEFT, RIGHT = 1, 2  # its actions


def make(game: str, **options: Any) -> Any:
    return gymnasium.make(f"MinAtar/{game}-v1", **options)


def breakout_steps(seed: int, n: int, **options: Any) -> list[tuple[Any, float, bool]]:
    """What n steps to the left and right in turn give."""
    env = make("Breakout", **options)
    env.reset(seed=seed)
    steps = []
    for t in range(n):
        obs, reward, terminated, _, _ = env.step((LEFT, RIGHT)[t % 2])
        steps.append((obs, reward, terminated))
        if terminated:
            env.reset()
    return steps


def column(obs: Any, channel: int) -> int:
    """Where the one pixel of a channel is from left to right."""
    return int(obs[:, :, channel].any(axis=0).argmax())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("game", GAMES)
def test_games_keep_the_contracts(game: str) -> None:
    check_env(make(game), n_steps=50)


@pytest.mark.parametrize("game", GAMES)
def test_observations_are_boolean_images_with_a_channel_for_every_object(game: str) -> None:
    env = make(game)
    n_channels, n_actions = GAMES[game]
    obs, _ = env.reset(seed=0)
    assert obs.shape == env.observation_space.shape == (10, 10, n_channels)
    assert obs.dtype == env.observation_space.dtype == bool
    assert env.action_space.n == n_actions


def test_a_tenth_of_the_actions_is_replaced_by_the_one_before() -> None:
    # Every step asks for the direction that the last one did not take, so the paddle shows each action that stuck.
    for probability, low, high in ((0.0, 0, 0), (0.1, 60, 140)):  # of 1000 draws: 100, with a deviation of 9.5
        env = make("Breakout", sticky_action_prob=probability)
        obs, _ = env.reset(seed=0)
        stuck, before = 0, LEFT
        for _ in range(1000):
            asked, at = RIGHT if before == LEFT else LEFT, column(obs, PADDLE)
            obs, _, terminated, *_ = env.step(asked)
            moved = column(obs, PADDLE) - at
            if moved:
                before = RIGHT if moved > 0 else LEFT
                stuck += before != asked
            if terminated:
                obs, _ = env.reset()
        assert low <= stuck <= high


def test_a_step_is_one_frame() -> None:
    steps = breakout_steps(0, 4)
    columns = [column(obs, BALL) for obs, _, _ in steps]
    assert [abs(after - before) for before, after in zip(columns, columns[1:], strict=False)] == [1, 1, 1]


def test_agents_learn_from_channels_first_and_the_buffer_keeps_bools(tmp_path: Path) -> None:
    seen: list[Any] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape)
        assert x.is_contiguous() and set(x.unique().tolist()) <= {0.0, 1.0}
        return x

    q_function = nn.Sequential(
        Lambda(look), nn.Conv2d(4, 2, 3), nn.Flatten(), nn.Linear(128, 3), DiscreteActionValueHead()
    )
    agent = DQN(
        q_function,
        torch.optim.Adam(q_function.parameters()),
        ReplayBuffer(100),
        0.99,
        ConstantEpsilonGreedy(0.5, lambda: np.random.randint(3)),
        replay_start_size=20,
        minibatch_size=8,
        phi=lambda obs: np.moveaxis(obs, -1, -3).astype(np.float32, order="C"),
    )
    env = make("Breakout")
    env.reset(seed=0)
    train_agent(agent, env, 40, tmp_path)
    assert agent.optim_t == 21  # at every step from the 20th
    assert {tuple(shape) for shape in seen} == {(1, 4, 10, 10), (8, 4, 10, 10)}
    batch = agent.replay_buffer.sample_batch(8, 0.99, "cpu")
    assert batch.obs.shape == (8, 10, 10, 4) and batch.obs.dtype == torch.bool
