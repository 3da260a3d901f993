"""What a VectorStream accepts and refuses; that all forms give the same stream is in tests/property."""

import gymnasium
import gymnasium.spaces as spaces
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from pfrl_like.env import VectorEnv
from pfrl_like.envs import SerialVectorEnv, as_vector_stream
from pfrl_like.envs.abc import ABC
from pfrl_like.errors import EnvError


class Returning(VectorEnv):
    """Two environments; returns from `reset` and `step` what it was given."""

    num_envs = 2

    def __init__(self, step=None, reset=(0, 0)):
        self.result, self.first = step, reset

    def step(self, action):
        return self.result

    def reset(self, mask=None):
        self.mask = mask
        return self.first

    def seed(self, seeds):
        """Nothing is random."""

    def close(self):
        self.closed = True


def after_step(result, **options):
    stream = as_vector_stream(Returning(result, **options))
    stream.reset()
    return stream, stream.step([0, 0])


def cartpoles(mode=AutoresetMode.NEXT_STEP):
    return gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})


@pytest.mark.parametrize("make", [lambda: SerialVectorEnv([ABC(), ABC()]), lambda: cartpoles()])
def test_spaces_are_those_of_one_env(make):
    env = make()
    stream = as_vector_stream(env)
    assert stream.num_envs == 2
    assert stream.action_space.shape == ()
    assert stream.observation_space.shape == (4,)
    assert stream.env is env and as_vector_stream(stream) is stream


def test_unknown_spaces_are_none():
    stream = as_vector_stream(Returning())
    assert stream.observation_space is None and stream.action_space is None


def gym_vector_env():
    gym = pytest.importorskip("gym")
    return gym.vector.VectorEnv(2, gym.spaces.Discrete(2), gym.spaces.Discrete(2))


@pytest.mark.parametrize("make", [ABC, lambda: None, lambda: gymnasium.make("CartPole-v1"), gym_vector_env])
def test_what_is_no_vector_env_is_refused(make):
    with pytest.raises(TypeError, match="expected a vector environment.*SerialVectorEnv"):
        as_vector_stream(make())


def test_four_values_tell_time_limits_and_asked_resets():
    infos = [{"TimeLimit.truncated": True}, {"needs_reset": True}]
    _, step = after_step(((1, 2), (0.5, 1), (True, False), infos))
    assert step.obs == (1, 2)
    assert step.reward.tolist() == [0.5, 1.0]
    assert step.terminated.tolist() == [False, False]
    assert step.truncated.tolist() == [True, True]
    assert step.active.tolist() == [True, True]
    assert step.action_mask is None
    assert step.infos is infos


def test_only_ended_envs_are_reset_and_none_when_none_has_ended():
    stream, _ = after_step(((1, 2), (0, 0), (True, False), ({}, {})))
    assert stream.begin([True, False]).obs == [0, 0]
    assert stream.env.mask.tolist() == [False, True]
    stream.env.result = ((3, 4), (0, 0), (False, False), ({}, {}))
    stream.env.mask = "not called"
    stream.step([0, 0])
    assert stream.begin([False, False]).obs == (3, 4)
    assert stream.env.mask == "not called"


def test_mask_that_only_one_env_tells_allows_everything_elsewhere():
    stream, step = after_step(((1, 2), (0, 0), (True, False), ({}, {"action_mask": [0, 1, 0]})))
    assert step.action_mask.tolist() == [[True, True, True], [False, True, False]]
    assert stream.begin([True, False]).action_mask.tolist() == step.action_mask.tolist()
    assert stream.begin([False, True]).action_mask.tolist() == [[True] * 3] * 2


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        ((1, 2, 3), EnvError, "3 values"),
        (None, EnvError, "NoneType"),
        (((1,), (0, 0), (False, False), ({}, {})), EnvError, "obs has length 1"),
        (((1, 2), (0, "a"), (False, False), ({}, {})), ValueError, r"reward is \(0, 'a'\)"),
        (((1, 2), (0,), (False, False), ({}, {})), ValueError, r"reward is \(0,\)"),
        (((1, 2), (0, 0), (False,), ({}, {})), ValueError, "done has shape"),
        (((1, 2), (0, 0), (False, False), {}), EnvError, "infos is dict"),
    ],
)
def test_wrong_step_result_is_named(result, error, message):
    with pytest.raises(error, match=message):
        after_step(result)


def test_wrong_number_of_first_observations_is_named():
    with pytest.raises(EnvError, match="reset returned 3 observations"):
        as_vector_stream(Returning(reset=(0, 0, 0))).reset()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ended_episode_has_to_be_begun(mode):
    env = SyncVectorEnv([lambda: gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 1)], autoreset_mode=mode)
    for stream in (as_vector_stream(env), after_step(((1, 2), (0, 0), (False, True), ({}, {})))[0]):
        stream.reset()
        stream.step(np.zeros(stream.num_envs, int))
        with pytest.raises(ValueError, match="these episodes have ended"):
            stream.begin([False] * stream.num_envs)
        with pytest.raises(ValueError, match="end has shape"):
            stream.begin([True] * 3)


def test_closing_the_stream_closes_the_env():
    stream = as_vector_stream(Returning())
    stream.close()
    assert stream.env.closed


def test_env_that_can_only_reset_itself_refuses_to_be_cut_off():
    stream = as_vector_stream(gymnasium.make_vec("CartPole-v1", 2))
    stream.reset()
    stream.step([0, 0])
    with pytest.raises(ValueError, match=r"environment 1 .*NEXT_STEP.*TimeLimit.*DISABLED"):
        stream.begin([False, True])


def test_env_that_does_not_tell_its_autoreset_mode_is_refused():
    env = gymnasium.make_vec("CartPole-v1", 2)
    env.unwrapped.metadata = {}
    with pytest.raises(ValueError, match="has autoreset_mode None"):
        as_vector_stream(env)


def test_same_step_env_without_last_observations_is_refused():
    class Forgetful(gymnasium.vector.VectorWrapper):
        def step(self, actions):
            *values, info = super().step(actions)
            return *values, {}

    stream = as_vector_stream(Forgetful(cartpoles(AutoresetMode.SAME_STEP)))
    stream.reset()
    with pytest.raises(EnvError, match="final_obs"):
        for _ in range(100):
            step = stream.step(np.zeros(2, int))
            stream.begin(step.terminated | step.truncated)


class Asking(gymnasium.Env):
    """Asks for a reset at every second step; the mask is a list."""

    observation_space, action_space = spaces.Box(0, 9, (1,)), spaces.Dict(a=spaces.Discrete(3))

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.float32([0]), {"action_mask": [True, False]}

    def step(self, action):
        self.t += 1
        assert action["a"] == 2
        return np.float32([self.t]), 1.0, False, False, {"needs_reset": self.t == 2, "action_mask": [False, True]}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_reset_asked_for_in_info_is_truncation(mode):
    stream = as_vector_stream(SyncVectorEnv([Asking, Asking], autoreset_mode=mode))
    now = stream.reset()
    seen = []
    for _ in range(4):
        assert now.active.all()
        step = stream.step([{"a": 2}, {"a": 2}])
        seen.append((now.obs[0].item(), now.action_mask[0].tolist(), step.obs[0].item(), bool(step.truncated[0])))
        assert step.action_mask.tolist() == [[False, True]] * 2
        now = stream.begin(step.truncated)
    assert seen == [(0, [True, False], 1, False), (1, [False, True], 2, True)] * 2
