"""Sources of steps check each observation and reward, and drop a space that does not describe the observations."""

import warnings

import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like.errors import NonFiniteError
from pfrl_like.experiments.sources import check_step, space_of_observations
from pfrl_like.utils import checks

BOX = spaces.Box(-1.0, 1.0, shape=(2,), dtype=np.float32)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("reward", [1e39, np.float64(1e39)])
def test_no_warning_of_numpy_comes_before_the_error_of_a_reward(reward):
    check_step(BOX, np.ones(2, np.float32), 3.4e38)
    with pytest.raises(NonFiniteError, match="reward is 1e"):
        check_step(BOX, np.ones(2, np.float32), reward)


@pytest.mark.parametrize("observations", [np.zeros((2, 3)), [np.zeros(2), np.zeros(3)], [{"a": 0}]])
def test_a_space_that_does_not_describe_the_observations_is_dropped_with_one_warning(observations, monkeypatch):
    monkeypatch.setattr(checks, "_WARNED", set())
    assert space_of_observations(BOX, np.zeros((2, 2))) is BOX
    assert space_of_observations(BOX, [np.zeros(2)] * 2) is BOX
    with pytest.warns(UserWarning, match="obs .*: observation_space of the environment is wrong and is ignored"):
        assert space_of_observations(BOX, observations) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert space_of_observations(BOX, observations) is None
    assert space_of_observations(None, observations) is None


@pytest.mark.filterwarnings("ignore:obs has shape")
def test_a_step_returns_the_space_for_the_next_one():
    assert check_step(BOX, np.zeros(2, np.float32), 1.0) is BOX
    assert check_step(BOX, np.zeros(2), 1) is BOX
    assert check_step(BOX, np.zeros(3, np.float32), 1.0) is None
