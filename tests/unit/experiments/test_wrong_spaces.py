"""Environments that return other observations than their observation space declares: one warning, and training runs."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from pfrl_like import agents, explorers, replay_buffers
from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.experiments.evaluator import Evaluator
from pfrl_like.nn import Branched, Lambda
from pfrl_like.policies import SoftmaxCategoricalHead
from pfrl_like.utils import checks

BOX = spaces.Box(-10, 10, (2,), np.float32)


class Declared(gym.Env[Any, Any]):
    """Returns the results of a function of the time, and declares a box of two numbers."""

    observation_space, action_space = BOX, spaces.Discrete(2)

    def __init__(self, obs_at: Callable[[int], Any], space: Any = BOX) -> None:
        self.obs_at, self.time, self.observation_space = obs_at, 0, space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.time = 0
        return self.obs_at(0), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        return self.obs_at(self.time), 1.0, self.time == 5, False, {}


def dqn(size: int, phi: Any = None) -> agents.DQN:
    model = nn.Sequential(nn.Linear(size, 2), Lambda(DiscreteActionValue))
    return agents.DQN(
        model, torch.optim.Adam(model.parameters()), replay_buffers.ReplayBuffer(100), 0.9,
        explorers.ConstantEpsilonGreedy(0.5, lambda: np.random.randint(2)), replay_start_size=4, minibatch_size=4,
        target_update_interval=4, phi=phi,
    )  # fmt: skip


def ppo(size: int, phi: Any = None) -> agents.PPO:
    model = Branched(nn.Sequential(nn.Linear(size, 2), SoftmaxCategoricalHead()), nn.Linear(size, 1))
    return agents.PPO(model, torch.optim.Adam(model.parameters()), update_interval=8, minibatch_size=4, phi=phi)


def appended(time: int) -> Any:
    """Two numbers and the number that a wrapper appends."""
    return np.array([0.5, 0.25, time / 10], np.float32)


def nested(time: int) -> Any:
    return {"position": np.full(2, time, np.float32), "goal": np.full(1, 0.5, np.float32)}


def flat(obs: Any) -> Any:
    return np.concatenate([obs["position"], obs["goal"]])


def of_any_length(time: int) -> Any:
    return np.ones(1 + time % 3, np.float32)


def padded(obs: Any) -> Any:
    return np.pad(obs, (0, 3 - len(obs)))


def doubles_later(time: int) -> Any:
    return np.full(2, 0.1 * time, np.float64 if time else np.float32)


def integers_first(time: int) -> Any:
    return np.full(2, 0.1 * time) if time else np.zeros(2, np.int64)


def to_float32(obs: Any) -> Any:
    return np.asarray(obs, np.float32)


CASES: dict[str, tuple[Callable[[], Any], Callable[[int], Any], str]] = {
    "appended number": (functools.partial(dqn, 3), appended, "obs has shape"),
    "appended number, PPO": (functools.partial(ppo, 3), appended, "obs has shape"),
    "dicts": (functools.partial(dqn, 3, flat), nested, "obs is "),
    "dicts, PPO": (functools.partial(ppo, 3, flat), nested, "obs is "),
    "lengths, PPO": (functools.partial(ppo, 3, padded), of_any_length, "obs has shape"),
    "float64 later": (functools.partial(dqn, 2, to_float32), doubles_later, "float64 instead of float32"),
    "integers first": (functools.partial(dqn, 2, to_float32), integers_first, "float64 instead of int64"),
}


@pytest.mark.parametrize("kind", ["serial", pytest.param("vector", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_training_runs_after_one_warning(case: str, kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_WARNED", set())
    make, obs_at, message = CASES[case]
    agent = make()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        if kind == "serial":
            train_agent(agent, Declared(obs_at), 12, str(tmp_path))
        else:
            env = SerialVectorEnv([Declared(obs_at) for _ in range(2)])
            train_agent_batch(agent, env, 12, str(tmp_path))
    assert agent.t == 12
    assert [message in str(each.message) for each in found if issubclass(each.category, UserWarning)] == [True]


def test_a_space_of_another_dtype_is_a_warning(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_WARNED", set())
    env = Declared(lambda time: np.full(2, 0.1, np.float32), spaces.Box(0, 255, (2,), np.uint8))
    with pytest.warns(UserWarning, match="obs has dtype float32, but the space"):
        train_agent(dqn(2), env, 8, str(tmp_path))


@pytest.mark.filterwarnings("ignore:obs has shape")
def test_lengths_that_a_replay_buffer_cannot_store_are_refused(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"next_obs: got ndarray of shape \(2,\), float32, expected .* \(1,\)"):
        train_agent(dqn(3, padded), Declared(of_any_length), 8, str(tmp_path))


@pytest.mark.filterwarnings("ignore:obs has shape")
def test_the_network_is_tried_with_the_first_observation(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match=r"obs is \(1, 3\) of float32"):
        train_agent(dqn(2), Declared(appended), 8, str(tmp_path))


@pytest.mark.filterwarnings("ignore:obs has shape")
def test_numbers_that_are_not_finite_are_still_refused(tmp_path: Any) -> None:
    env = Declared(lambda time: np.array([0, 0, np.nan if time else 0], np.float32))
    with pytest.raises(ValueError, match="obs has nan"):
        train_agent(dqn(3), env, 8, str(tmp_path))


def test_an_evaluation_warns_of_the_space_too(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_WARNED", set())
    evaluator = Evaluator(dqn(3), Declared(appended), None, 1, 1, str(tmp_path))
    with pytest.warns(UserWarning, match="obs has shape .*observation_space of the environment is wrong"):
        assert evaluator.evaluate_if_necessary(t=1, episodes=0) == 5.0
