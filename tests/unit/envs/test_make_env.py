"""Environments by id: errors name the id, the package or the extra; seeds give equal environments."""

import sys
from functools import partial

import gymnasium
import numpy as np
import pytest

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv, make_env, make_vec
from pfrl_like.envs.abc import ABC
from pfrl_like.envs.make_env import accept_env_ids, env_factory, open_env
from pfrl_like.errors import MissingDependencyError
from pfrl_like.utils import set_random_seed


def first_obs(env, **seed):
    return np.asarray(env.reset(**seed)[0])


def test_a_seed_fixes_observations_and_sampled_actions():
    made, given = make_env("CartPole-v1", seed=3), make_env(gymnasium.make("CartPole-v1"), seed=3)
    assert made.spec.id == "CartPole-v1" and (first_obs(made) == first_obs(given)).all()
    assert [made.action_space.sample() for _ in range(9)] == [given.action_space.sample() for _ in range(9)]


def test_arguments_reach_the_environment_and_an_environment_is_returned_as_it_is():
    env = make_env("CartPole-v1", render_mode="rgb_array", max_episode_steps=7)
    assert (env.render_mode, env.spec.max_episode_steps) == ("rgb_array", 7) and make_env(env) is env
    with pytest.raises(TypeError, match="env is an environment and max_episode_steps is given"):
        make_env(env, max_episode_steps=3)


@pytest.mark.parametrize(("env_id", "near"), [("cartpol-v1", "CartPole-v1"), ("Pendulum-v7", "Pendulum-v1")])
def test_an_unknown_id_names_the_nearest_ids(env_id, near):
    with pytest.raises(ValueError, match=f"env is '{env_id}', expected the id of .* such as {near}") as caught:
        make_env(env_id)
    assert isinstance(caught.value.__cause__, gymnasium.error.Error)


@pytest.mark.parametrize(
    ("env_id", "module", "extra"),
    [("MinAtar/Breakout-v1", "minatar", "minatar"), ("HopperBulletEnv-v0", "pybullet_envs_gymnasium", "pybullet"),
     ("LunarLander-v3", "Box2D", "box2d")],
)  # fmt: skip
def test_a_missing_package_names_the_extra(env_id, module, extra, monkeypatch):
    for name in [*sys.modules]:
        if name.startswith("gymnasium.envs.box2d"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"the environment {env_id} needs .*\[{extra}\]"):
        make_env(env_id)


@pytest.mark.parametrize("processes", [False, True])
def test_environments_of_a_vector_have_consecutive_seeds(processes):
    vec = make_vec("CartPole-v1", 2, seed=5, processes=processes, max_episode_steps=7)
    expected = [first_obs(make_env("CartPole-v1"), seed=seed).tolist() for seed in (5, 6)]
    assert isinstance(vec, MultiprocessVectorEnv if processes else SerialVectorEnv)
    assert [obs.tolist() for obs in vec.reset()[0]] == expected and vec.spec.max_episode_steps == 7
    vec.close()


def test_a_function_gets_the_index_only_if_it_needs_an_argument():
    assert [env.size for env in make_vec(lambda i: ABC(i + 1), 2).envs] == [1, 2]
    assert [env.size for env in make_vec(ABC, 2, size=4).envs] == [4, 4]
    for wrong in (ABC(), 3):
        with pytest.raises(TypeError, match="expected an environment id or a function that makes an environment"):
            make_vec(wrong, 2)


def test_an_environment_for_an_id_depends_on_the_global_stream_and_the_argument_and_is_closed(monkeypatch):
    closed = []
    monkeypatch.setattr("gymnasium.Wrapper.close", lambda env: closed.append(env))

    @accept_env_ids("other", vector="env")
    def both(env, other=None):
        return [env.reset()[0][0].tolist(), first_obs(other).tolist(), len(closed)]

    set_random_seed(1)
    state, (first, second, open_then) = np.random.get_state()[1].tolist(), both("CartPole-v1", other="CartPole-v1")
    assert first != second and open_then == 0 < len(closed) and state == np.random.get_state()[1].tolist()
    assert both("CartPole-v1", "CartPole-v1")[:2] == [first, second]
    np.random.random()
    assert both("CartPole-v1", "CartPole-v1")[0] != first
    count, given = len(closed), make_env("CartPole-v1", seed=1)
    both(given, given)
    with open_env(given) as same:
        assert same is given and len(closed) == count


def test_processes_get_a_function_and_test_is_another_environment():
    make = env_factory("CartPole-v1")
    assert (first_obs(make(0, test=False)) != first_obs(make(0, test=True))).any()
    assert env_factory(partial) is partial
    with pytest.raises(ValueError, match="make_env is 'CartPol-v1'"):
        env_factory("CartPol-v1")
