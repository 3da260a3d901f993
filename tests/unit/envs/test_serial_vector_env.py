"""Vector environments return what their environments return, in their own form."""

import gymnasium
import pytest

from pfrl_like.env import VectorEnv
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError


def cartpole():
    return gymnasium.make("CartPole-v1")


def serial(fns):
    return SerialVectorEnv([make() for make in fns])


def cartpoles():
    return serial([cartpole] * 2)


both = pytest.mark.parametrize("kind", [serial, lambda fns: MultiprocessVectorEnv(fns, "fork")], ids=["serial", "fork"])


@both
def test_attributes_are_those_of_one_env(kind):
    env, one = kind([cartpole] * 2), cartpole()
    assert isinstance(env, VectorEnv)
    assert (env.num_envs, env.unwrapped) == (2, env)
    assert (env.observation_space, env.action_space) == (one.observation_space, one.action_space)
    assert env.spec.id == "CartPole-v1"
    env.close()


@both
def test_four_values_stay_four(kind):
    env = kind([ABC, ABC])
    first = env.reset()
    assert isinstance(first, list | tuple) and len(first) == 2
    obs, rewards, dones, infos = env.step([0, 1])
    assert [o.argmax() for o in obs] == [1, 2]
    assert (rewards, dones, infos) == ((0.0, 0.0), (False, True), ({}, {}))
    assert env.last_obs is obs
    assert [o.argmax() for o in env.reset([True, False])] == [1, 0]
    assert [o.argmax() for o in env.reset([True, True])] == [1, 0]
    env.close()


def test_five_values_stay_five_and_reset_tells():
    env = cartpoles()
    env.seed([1, 2])
    obs, infos = env.reset()
    assert infos == [{}, {}]
    expected = [cartpole().reset(seed=seed)[0].tolist() for seed in (1, 2)]
    assert [o.tolist() for o in obs] == expected
    assert len(env.step([0, 1])) == 5


@both
def test_a_seed_given_before_a_state_is_restored_has_no_effect_on_later_episodes(kind):
    def later_episode(env):
        obs, _ = env.reset([True, False])
        env.close()
        return obs[1].tolist()

    first, second = kind([cartpole] * 2), kind([cartpole] * 2)
    for env in (first, second):
        env.seed([1, 2])
        env.record()
    first.reset()
    second.restore_state(first.saved_state())
    assert later_episode(second) == later_episode(first)


@both
def test_seed_goes_to_envs_with_a_seed_method_at_once(kind):
    env = kind([lambda: ABC(partially_observable=True)] * 2)
    runs = []
    for _ in range(2):
        env.seed([3, 4])
        runs.append([[int(o.argmax()) for o in env.reset()] for _ in range(10)])
    assert runs[0] == runs[1]
    env.seed(None)
    env.close()


def test_one_seed_serves_all_and_none_changes_nothing():
    env = cartpoles()
    env.seed(7)
    obs, _ = env.reset()
    assert obs[0].tolist() == obs[1].tolist()
    env.seed(None)
    obs, _ = env.reset()
    assert obs[0].tolist() == obs[1].tolist()


@pytest.mark.parametrize(("seeds", "wrong"), [(["a", 1], "'a'"), (1.5, "1.5")])
def test_seeds_that_are_no_numbers_are_named(seeds, wrong):
    with pytest.raises(TypeError, match=f"seeds contains {wrong}"):
        cartpoles().seed(seeds)


def test_mixed_forms_are_refused():
    env = serial([ABC, cartpole])
    env.reset()
    with pytest.raises(EnvError, match=r"returned \[4, 5\] values"):
        env.step([0, 0])


def test_close_closes_every_env_whatever_fails():
    closed = []

    class Fails(ABC):
        def close(self):
            closed.append(self)
            raise KeyError(len(closed))

    class CannotBeClosed:
        reset = step = None

    env = SerialVectorEnv([CannotBeClosed(), Fails(), Fails()])
    with pytest.raises(KeyError, match="1"):
        env.close()
    assert closed == env.envs[1:]
