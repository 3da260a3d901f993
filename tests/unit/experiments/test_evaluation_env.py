"""Tests of the choice of the evaluation environment."""

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import agent_parts
import gymnasium
import numpy as np
import pytest

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent_with_evaluation
from pfrl_like.experiments.evaluation_env import choose_eval_env
from pfrl_like.utils import env_modifiers

TRAINING_ENV = "the training environment, between episodes"


class Counted(gymnasium.Env):  # type: ignore[type-arg]
    """Episodes of five steps with reward 1. The environment counts its steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (5,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.t = self.n_steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros(5, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t, self.n_steps = self.t + 1, self.n_steps + 1
        return np.full(5, self.t, np.float32), 1.0, self.t == 5, False, {}


@pytest.fixture
def registered() -> Iterator[None]:
    gymnasium.register("Counted-v0", Counted)
    yield
    gymnasium.registry.pop("Counted-v0")


def replace_by_function(env: Any) -> None:
    step = env.step

    def tenfold(action: Any) -> Any:
        obs, reward, *rest = step(action)
        return obs, 10 * reward, *rest

    env.step = tenfold


def replace_by_method(env: Any) -> None:
    def tenfold(self: Any, action: Any) -> Any:
        obs, reward, *rest = type(self).step(self, action)
        return obs, 10 * reward, *rest

    env.unwrapped.step = types.MethodType(tenfold, env.unwrapped)


def replace_and_modify(env: Any) -> None:
    replace_by_function(env)
    env_modifiers.make_reward_filtered(env, lambda reward: reward)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("replace", [replace_by_function, replace_by_method, replace_and_modify])
@pytest.mark.parametrize("make", [Counted, lambda: gymnasium.make("Counted-v0")])
def test_the_score_is_that_of_a_step_that_the_user_replaced(make: Any, replace: Any, tmp_path: Path) -> None:
    env = make()
    replace(env)
    _, scores = train_agent_with_evaluation(
        agent_parts.make_agent(), env, 10, None, 1, 5, str(tmp_path), use_tensorboard=False
    )
    assert [row["eval_score"] for row in scores] == [50.0, 50.0]
    assert env.unwrapped.n_steps == 10 + 2 * 5  # the evaluation is between the training episodes


def test_a_step_that_is_modified_or_is_a_method_of_the_class_is_copied() -> None:
    env = Counted()
    env.step = env.step  # type: ignore[method-assign]
    env_modifiers.make_timestep_limited(env, 3)
    context, choice = choose_eval_env(env, None)
    with context as copied:
        copied.step(0)
    assert choice == "deep copy of the training environment"
    assert env.n_steps == 0


def test_a_vector_environment_whose_step_the_user_replaced_needs_an_evaluation_environment() -> None:
    env = SerialVectorEnv([Counted()])
    replace_by_function(env)
    with pytest.raises(ValueError, match="a function replaces step or reset.* pass a single or a vector environment"):
        choose_eval_env(env, None, vector=True)


HOLDERS: list[Callable[[Any], Any]] = [
    lambda env: SimpleNamespace(env=env),
    lambda env: SimpleNamespace(env=env.unwrapped),
    lambda env: SimpleNamespace(env=env.env),
    lambda env: SimpleNamespace(env=gymnasium.wrappers.TimeLimit(env.unwrapped, 3)),
    lambda env: SimpleNamespace(legal=env.step),
    lambda env: SimpleNamespace(legal=env.unwrapped.step),
    lambda env: SimpleNamespace(explorer=SimpleNamespace(env=env)),
    lambda env: SimpleNamespace(explorer=SimpleNamespace(legal=env.step)),
]


@pytest.mark.parametrize("make", HOLDERS)
def test_an_agent_that_holds_the_environment_is_evaluated_in_it(make: Callable[[Any], Any]) -> None:
    env = gymnasium.make("CartPole-v1")
    context, choice = choose_eval_env(env, None, agent=make(env))
    with context as chosen:
        assert chosen is env
    assert choice == TRAINING_ENV


def test_other_agents_are_evaluated_in_a_new_environment() -> None:
    env = gymnasium.make("CartPole-v1")
    context, _ = choose_eval_env(env, None, agent=SimpleNamespace(env=gymnasium.make("CartPole-v1")))
    with context as chosen:
        assert chosen is not env


class Raising:
    """An object of a user; reading an attribute that it does not have is an error."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_attributes_of_the_agent_are_not_asked_for_attributes() -> None:
    circle = SimpleNamespace()
    circle.env = circle
    _, choice = choose_eval_env(
        Counted(), None, agent=SimpleNamespace(own=Raising(), explorer=Raising(), circle=circle)
    )
    assert choice == "deep copy of the training environment"
