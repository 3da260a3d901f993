"""Observations and their space are cast; the original stays at hand."""

import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like.envs.abc import ABC
from pfrl_like.wrappers import CastObservation, CastObservationToFloat32


class Observing(ABC):
    def __init__(self, space, obs):
        super().__init__()
        self.observation_space, self.obs = space, obs

    def reset(self):
        return self.obs

    def step(self, action):
        return self.obs, 0.0, False, {}


def test_observations_of_reset_and_step_are_cast():
    original = np.array([1, 2], np.uint8)
    env = CastObservation(Observing(spaces.Box(0, 255, (2,), np.uint8), original), np.float64)
    assert env.original_observation is None
    for obs in (env.reset(), env.step(0)[0]):
        assert obs.dtype == np.float64 and obs.tolist() == [1, 2]
        assert env.original_observation is original
    space = env.observation_space
    assert (space.dtype, space.low.tolist(), space.high.tolist()) == (np.float64, [0, 0], [255, 255])


def test_float32_is_the_usual_case_and_costs_no_copy():
    original = np.float32([1, 2])
    env = CastObservationToFloat32(Observing(spaces.Box(-np.inf, np.inf, (2,), np.float32), original))
    assert env.reset() is original
    assert env.observation_space == spaces.Box(-np.inf, np.inf, (2,), np.float32)


def test_arrays_in_dicts_and_tuples_are_cast_and_integers_are_not():
    pair = spaces.Tuple([spaces.MultiBinary(2), spaces.MultiDiscrete([3, 4])])
    space = spaces.Dict(a=pair, b=spaces.Discrete(3), c=spaces.Box(0, 1, ()))
    original = {"a": (np.array([0, 1]), np.array([2, 3])), "b": 1, "c": np.array(0.5)}
    env = CastObservationToFloat32(Observing(space, original))
    obs = env.reset()
    assert [part.dtype for part in (*obs["a"], obs["c"])] == [np.float32] * 3
    assert type(obs["b"]) is int
    assert env.observation_space.contains(obs)
    assert env.observation_space["a"][1].high.tolist() == [2, 3]


def test_lazy_frames_are_cast():
    class Lazy:
        dtype, shape = np.dtype(np.uint8), (2,)

        def __array__(self, dtype=None, copy=None):
            return np.array([1, 2], np.uint8)

    obs = CastObservationToFloat32(Observing(None, Lazy())).reset()
    assert obs.dtype == np.float32 and obs.tolist() == [1, 2]


def test_bounds_beyond_the_dtype_become_infinite():
    env = CastObservation(Observing(spaces.Box(-1e30, 1e30, (1,), np.float64), None), np.float16)
    assert env.observation_space.high == np.inf


def test_unknown_dtype_is_refused():
    with pytest.raises(TypeError):
        CastObservation(ABC(), "no dtype")
