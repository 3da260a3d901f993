"""Environments of every library train in the same runner, and the checks tell good environments from bad ones."""

import sys
import types
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from agent_parts import make_agent, make_q_function
from gymnasium import spaces
from masked_parts import OneAllowed

from pfrl_like.env import as_gymnasium
from pfrl_like.envs.abc import ABC
from pfrl_like.experiments import train_agent
from pfrl_like.testing import Chain, check_env
from pfrl_like.utils import set_random_seed


class OldEnv:
    """An object with `reset` and a `step` of four values, from no library; its episodes are cut off after 10 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self) -> Any:
        self.t = 0
        return np.zeros(5, dtype=np.float32)

    def step(self, action: Any) -> Any:
        self.t += 1
        done = self.t == 10
        return np.full(5, self.t, dtype=np.float32), 1.0, done, {"TimeLimit.truncated": True} if done else {}


def make_gym_cartpole() -> Any:
    gym = pytest.importorskip("gym")
    return gym.make("CartPole-v1")


ENVS = {
    "gymnasium": lambda: gymnasium.make("CartPole-v1"),
    "gym 0.26": make_gym_cartpole,
    "an object of four values": OldEnv,
    "ABC": lambda: ABC(size=2),
    "ABC, continuing": lambda: ABC(size=2, episodic=False),
    "chain": lambda: Chain(),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ENVS)
def test_env_keeps_the_contracts(name: str) -> None:
    check_env(ENVS[name]())


@pytest.mark.representatives(2)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", ENVS)
def test_env_trains_in_the_same_runner(name: str, tmp_path: Any) -> None:
    set_random_seed(0)
    env = ENVS[name]()
    if name == "gym 0.26":
        env.reset(seed=0)
    size = env.observation_space.shape[0]
    agent = make_agent(q_function=make_q_function(obs_size=size))
    train_agent(agent, env, 60, tmp_path, max_episode_len=20)
    assert agent.t == 60 and agent.optim_t == 51
    if name == "an object of four values":  # what it cuts off is not terminal
        assert (agent.replay_buffer.sample_batch(60, 0.9).discount > 0).all()
    elif name == "gym 0.26":
        assert (agent.replay_buffer.sample_batch(60, 0.9).discount == 0).any()


def broken(**changes: Any) -> Any:
    """A `Chain` with other methods or attributes."""
    env = Chain()
    for name, value in changes.items():
        setattr(env, name, types.MethodType(value, env) if callable(value) else value)
    return env


def stepping(**changes: Any) -> Any:
    """A `Chain` whose step returns other values."""

    def step(self: Any, action: Any) -> Any:
        result = dict(zip(("obs", "reward", "terminated", "truncated", "info"), Chain.step(self, action), strict=True))
        return tuple((result | changes).values())

    return broken(step=step)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (stepping(obs=np.zeros(3, dtype=np.float32)), r"the observation of step has shape \(3,\)"),
        (stepping(obs=np.full(5, np.nan, dtype=np.float32)), "the observation of step has nan at index 0"),
        (stepping(obs=np.full(5, 2.0, dtype=np.float32)), "lies outside the observation space"),
        (stepping(reward=np.inf), "reward is inf, expected a finite number"),
        (stepping(reward=None), "reward is None .*expected one number"),
        (stepping(reward=np.zeros(2)), "reward is array.*expected one number"),
        (stepping(terminated=2), r"terminated is 2 \(int\), expected a bool"),
        (stepping(truncated=None), "truncated is None"),
        (stepping(info=None), "info is NoneType, expected a dict"),
        (broken(reset=lambda self, **_: np.zeros(5, dtype=np.float32)), "reset returned ndarray, expected"),
        (stepping(info={"action_mask": [False, False]}), "step is .*, expected at least one allowed action"),
        (stepping(info={"action_mask": [True] * 3}), "the action_mask of step is .*, expected 2 numbers, 0 or 1"),
        (stepping(info={"action_mask": [0.5, 2]}), "the action_mask of step is .*, expected 2 numbers, 0 or 1"),
        (broken(action_space=None), "the environment has no action_space"),
    ],
)
def test_what_is_wrong_with_an_environment_is_said(env: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_env(env)


class InPlace(Chain):
    """Returns the same arrays every time, and changes them."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict({"state": self.observation_space})
        self.obs = {"state": np.zeros(5, dtype=np.float32)}

    def _observation(self) -> Any:
        self.obs["state"][:] = super()._observation()
        return self.obs


@pytest.mark.slow
def test_environment_may_change_its_observations_in_place(tmp_path: Any) -> None:
    check_env(InPlace())
    agent = make_agent(q_function=make_q_function(obs_size=5), phi=lambda obs: obs["state"])
    train_agent(agent, InPlace(), 60, tmp_path)
    batch = agent.replay_buffer.sample_batch(60)
    before, after = batch.obs["state"].argmax(1), batch.next_obs["state"].argmax(1)
    assert torch.equal(after - before, batch.action)


class Strict(Chain):
    """Takes one pair of actions alone; at the end none."""

    def __init__(self) -> None:
        super().__init__(size=30)
        self.action_space: Any = spaces.MultiDiscrete([2, 3])

    def reset(self, **options: Any) -> Any:
        return super().reset(**options)[0], {"action_mask": [0, 1, *(np.arange(3) == self._state % 3)]}

    def step(self, action: Any) -> Any:
        assert action.tolist() == [1, self._state % 3]
        obs, reward, terminated, truncated, _ = super().step(1)
        mask = [0, 1, *(np.arange(3) == self._state % 3)]
        return obs, reward, terminated, truncated, {"action_mask": np.array(mask) * (not terminated)}


@pytest.mark.parametrize("env", [OneAllowed(), Strict()], ids=["Discrete", "MultiDiscrete"])
def test_only_allowed_actions_are_taken(env: Any) -> None:
    check_env(env)


def test_numbers_that_do_not_follow_the_seed_are_found() -> None:
    class Unseeded(Chain):
        def reset(self, **_: Any) -> Any:
            return super().reset()

    with pytest.raises(AssertionError, match="the same seed and actions gave different results: trace"):
        check_env(Unseeded())


def test_a_class_is_no_environment() -> None:
    with pytest.raises(TypeError, match="a class instead of an instance"):
        check_env(Chain)


def test_gym_is_not_needed_for_gymnasium() -> None:
    before = "gym" in sys.modules
    as_gymnasium(gymnasium.make("CartPole-v1"))
    assert ("gym" in sys.modules) == before
