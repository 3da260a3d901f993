"""Tests of the choice of the evaluation environment."""

import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest
from experiment_fakes import Counting, Recorder

from pfrl_like.envs import SerialVectorEnv
from pfrl_like.experiments import train_agent_with_evaluation
from pfrl_like.experiments.evaluation_env import choose_eval_env
from pfrl_like.utils import env_modifiers


@pytest.fixture
def registered() -> Iterator[None]:
    gymnasium.register("Counting-v0", Counting)
    yield
    gymnasium.registry.pop("Counting-v0")


def tenfold(step: Any) -> Any:
    def changed(action: Any) -> Any:
        obs, reward, *rest = step(action)
        return obs, 10 * reward, *rest

    return changed


def replace_by_function(env: Any) -> None:
    env.step = tenfold(env.step)


def replace_by_method(env: Any) -> None:
    step = tenfold(env.unwrapped.step)
    env.unwrapped.step = types.MethodType(lambda self, action: step(action), env.unwrapped)


def replace_and_modify(env: Any) -> None:
    replace_by_function(env)
    env_modifiers.make_reward_filtered(env, lambda reward: reward)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("replace", [replace_by_function, replace_by_method, replace_and_modify])
@pytest.mark.parametrize("make", [Counting, lambda: gymnasium.make("Counting-v0")])
def test_the_score_is_that_of_a_step_that_the_user_replaced(make: Any, replace: Any, tmp_path: Path) -> None:
    env = make()
    replace(env)
    _, scores = train_agent_with_evaluation(Recorder(), env, 6, None, 1, 3, str(tmp_path))
    assert [row["eval_score"] for row in scores] == [30.0, 30.0]
    assert env.unwrapped.n_resets == 4  # two episodes of training, and the evaluations between them


def test_a_step_that_is_modified_or_is_a_method_of_the_class_is_copied() -> None:
    env = Counting()
    env.step = env.step
    env_modifiers.make_timestep_limited(env, 3)
    context, choice = choose_eval_env(env, None)
    with context as copied:
        copied.reset()
    assert choice == "deep copy of the training environment" and env.n_resets == 0


@pytest.mark.parametrize("inside", [False, True])
def test_a_vector_environment_whose_step_the_user_replaced_needs_an_evaluation_environment(inside: bool) -> None:
    env = SerialVectorEnv([Counting()])
    replace_by_function(env.envs[0] if inside else env)
    with pytest.raises(ValueError, match="a function replaces step or reset.* pass a single or a vector environment"):
        choose_eval_env(env, None, vector=True)


HOLDERS: list[Callable[[Any], Any]] = [
    lambda env: {"env": env}, lambda env: {"env": env.unwrapped}, lambda env: {"env": env.env},
    lambda env: {"env": gymnasium.wrappers.TimeLimit(env.unwrapped, 3)},
    lambda env: {"legal": env.step}, lambda env: {"legal": env.unwrapped.step},
    lambda env: {"explorer": SimpleNamespace(env=env)}, lambda env: {"explorer": SimpleNamespace(legal=env.step)},
]  # fmt: skip


@pytest.mark.parametrize("make", HOLDERS)
def test_an_agent_that_holds_the_environment_is_evaluated_in_it(make: Callable[[Any], Any]) -> None:
    env = gymnasium.make("CartPole-v1")
    context, choice = choose_eval_env(env, None, agent=SimpleNamespace(**make(env)))
    with context as chosen:
        assert chosen is env and choice == "the training environment, between episodes"


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
    agent = SimpleNamespace(own=Raising(), explorer=Raising(), circle=circle)
    _, choice = choose_eval_env(Counting(), None, agent=agent)
    assert choice == "deep copy of the training environment"
