"""Changes of environments in place, with PFRL's numbers."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

from pfrl_like.experiments.evaluation_env import choose_eval_env
from pfrl_like.utils import env_modifiers
from pfrl_like.utils.reward_filter import AverageRewardFilter

RESULTS = [(1, 1.0), (2, 4.0), (3, 9.0), (4, 16.0), (5, 25.0)]


class Four:
    """The observation is the number of the step, the reward that number times the action; five steps an episode."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def reset(self, **options: Any) -> int:
        self.t, self.options = 0, options
        return 0

    def step(self, action: float) -> Any:
        self.t += 1
        return self.t, action * self.t, self.t >= 5, {}

    def render(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append((args, kwargs))

    def close(self) -> None:
        self.calls.append("closed")


class Five(Four):
    def step(self, action: float) -> Any:
        obs, reward, done, info = super().step(action)
        return obs, reward, done, False, info


def double(action: float) -> float:
    return 2 * action


#: The function, its further argument, and the observations, rewards and ends of the first steps.
MODIFIERS: dict[str, tuple[Callable[..., None], list[Any], list[Any]]] = {
    "action": (env_modifiers.make_action_filtered, [double], [(1, 2.0, False), (2, 8.0, False), (3, 18.0, False)]),
    "reward": (env_modifiers.make_reward_filtered, [double], [(1, 2.0, False), (2, 8.0, False), (3, 18.0, False)]),
    "clip": (env_modifiers.make_reward_clipped, [-1, 2], [(1, 1.0, False), (2, 2.0, False), (3, 2.0, False)]),
    "repeat": (env_modifiers.make_action_repeated, [3], [(3, 6.0, False), (5, 18.0, True)]),  # 2 * (4 + 5) = 18
    "limit": (env_modifiers.make_timestep_limited, [3], [(1, 1.0, False), (2, 4.0, False), (3, 9.0, True)]),
}


def modified(env: Any, *names: str) -> Any:
    for name in names:
        modify, arguments, _ = MODIFIERS[name]
        modify(env, *arguments)
    return env


def played(env: Any, count: int) -> list[Any]:
    env.reset()
    return [env.step(float(i)) for i in range(1, count + 1)]


@pytest.mark.parametrize("name", MODIFIERS)
def test_modifiers_give_pfrls_numbers_in_every_episode(name: str) -> None:
    env, expected = modified(Four(), name), MODIFIERS[name][-1]
    for _ in range(2):
        assert played(env, len(expected)) == [(*values, {}) for values in expected]


@pytest.mark.parametrize("name", MODIFIERS)
def test_five_values_stay_five_and_a_limit_truncates(name: str) -> None:
    env, expected = modified(Five(), name), MODIFIERS[name][-1]
    flags = [(False, done) if name == "limit" else (done, False) for _, _, done in expected]
    assert played(env, len(expected)) == [
        (obs, reward, *flag, {}) for (obs, reward, _), flag in zip(expected, flags, strict=True)
    ]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_is_changed_too_and_steps_itself(copied: Callable[[Any], Any]) -> None:
    env = modified(Four(), "action", "limit", "reward")
    env_modifiers.make_reward_filtered(env, AverageRewardFilter(tau=0.5))
    env.reset()
    other = copied(env)
    assert played(other, 3) == [(1, 2.0, False, {}), (2, 7.0, False, {}), (3, 13.5, True, {})]  # of rewards 4, 16, 36
    assert (other.t, env.t) == (3, 0)
    assert env.step(1.0) == (1, 2.0, False, {})


def test_the_limit_hands_the_arguments_of_reset_on() -> None:
    env = modified(Four(), "limit")
    env.reset(seed=4)
    assert env.options == {"seed": 4}


def test_every_step_is_rendered_and_the_window_closed() -> None:
    env = Four()
    env_modifiers.make_rendered(env, "human", x=1)
    played(env, 2)
    env.close()
    assert env.calls == [(("human",), {"x": 1})] * 2 + [(("human",), {"close": True, "x": 1}), "closed"]


def test_an_environment_of_gymnasium_is_rendered_and_closed_without_an_argument() -> None:
    env = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    frames: list[Any] = []
    env.render = lambda: frames.append(0)  # type: ignore[method-assign]
    env_modifiers.make_rendered(env)
    env.reset(seed=0)
    env.step(0)
    env.close()
    assert len(frames) == 1


@pytest.mark.parametrize("modify", [env_modifiers.make_timestep_limited, env_modifiers.make_action_repeated])
def test_counts_are_checked(modify: Callable[[Any, Any], None]) -> None:
    with pytest.raises(ValueError, match="is 0, expected an integer from 1 on"):
        modify(Four(), 0)


def test_a_changed_environment_is_evaluated_in_a_copy_that_is_changed_too() -> None:
    env = gymnasium.make("CartPole-v1")
    env_modifiers.make_timestep_limited(env, 3)
    context, choice = choose_eval_env(env, None)
    assert choice == "deep copy of the training environment"
    with context as copied:
        copied.reset(seed=0)
        assert [copied.step(0)[3] for _ in range(3)] == [False, False, True]


class Simulated(gymnasium.Env):  # type: ignore[type-arg]
    """An environment around a simulator that has no attributes."""

    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self.env = object()


def test_an_environment_around_an_object_without_attributes_is_made_again() -> None:
    gymnasium.register("Simulated-v0", Simulated, disable_env_checker=True)
    try:
        _, choice = choose_eval_env(gymnasium.make("Simulated-v0"), None)
    finally:
        gymnasium.registry.pop("Simulated-v0")
    assert choice == "fresh environment of the same specification"
