"""Environments by id: errors name the id, the package or the extra; seeds give equal environments."""

import sys

import gymnasium
import numpy as np
import pytest

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv, make_env, make_vec
from pfrl_like.envs.abc import ABC
from pfrl_like.envs.make_env import accept_env_ids, env_factory
from pfrl_like.errors import MissingDependencyError
from pfrl_like.utils import set_random_seed


def first_obs(env, **seed):
    return env.reset(**seed)[0].tolist()


def test_a_seed_fixes_observations_and_sampled_actions():
    envs = make_env("CartPole-v1", seed=3), make_env(gymnasium.make("CartPole-v1"), seed=3)
    first, second = ([first_obs(env), *(env.action_space.sample() for _ in range(9))] for env in envs)
    assert first == second


def test_arguments_reach_the_environment_and_an_environment_is_returned_as_it_is():
    env = make_env("CartPole-v1", max_episode_steps=7)
    assert env.spec.max_episode_steps == 7 and make_env(env) is env
    with pytest.raises(TypeError, match="env is an environment and max_episode_steps is given"):
        make_env(env, max_episode_steps=3)


@pytest.mark.parametrize("env_id", ["cartpol-v1", "CartPole-v7"])
def test_an_unknown_id_names_the_nearest_ids(env_id):
    with pytest.raises(ValueError, match=f"env is '{env_id}', expected the id of .* such as CartPole-v1") as caught:
        make_env(env_id)
    assert isinstance(caught.value.__cause__, gymnasium.error.Error)


@pytest.mark.parametrize(
    ("env_id", "module", "extra"), [("MinAtar/Asterix-v1", "minatar", "minatar"), ("LunarLander-v3", "Box2D", "box2d")]
)
def test_a_missing_package_names_the_extra(env_id, module, extra, monkeypatch):
    for name in [*sys.modules]:
        if name.startswith(("gymnasium.envs.box2d", "minatar")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"the environment {env_id} needs .*\[{extra}\]"):
        make_env(env_id)


@pytest.mark.parametrize("processes", [False, True])
def test_environments_of_a_vector_have_consecutive_seeds(processes):
    vec = make_vec("CartPole-v1", 2, seed=5, processes=processes, max_episode_steps=7)
    assert isinstance(vec, MultiprocessVectorEnv if processes else SerialVectorEnv) and vec.spec.max_episode_steps == 7
    expected = [first_obs(make_env("CartPole-v1"), seed=seed) for seed in (5, 6)]
    assert [obs.tolist() for obs in vec.reset()[0]] == expected
    vec.close()


def test_a_function_gets_the_index_only_if_it_needs_an_argument():
    assert [env.size for env in make_vec(lambda i: ABC(i + 1), 2).envs] == [1, 2]
    assert [env.size for env in make_vec(ABC, 2, size=4).envs] == [4, 4]


def test_an_environment_for_an_id_depends_on_the_global_stream_and_the_argument():
    @accept_env_ids("other", vector="env")
    def first(env, other=None):
        return [obs.tolist() for obs in env.reset()[0]] + [first_obs(other)]

    set_random_seed(1)
    state, (obs, obs_of_other) = np.random.get_state()[1].tolist(), first("CartPole-v1", other="CartPole-v1")
    assert obs != obs_of_other and state == np.random.get_state()[1].tolist()
    assert first("CartPole-v1", "CartPole-v1") == [obs, obs_of_other]
    np.random.random()
    assert obs not in first("CartPole-v1", "CartPole-v1")


def test_processes_get_a_function_and_test_is_another_environment():
    make = env_factory("CartPole-v1")
    assert first_obs(make(0, test=False)) != first_obs(make(0, test=True)) and env_factory(make) is make
    with pytest.raises(ValueError, match="make_env is 'CartPol-v1'"):
        env_factory("CartPol-v1")
