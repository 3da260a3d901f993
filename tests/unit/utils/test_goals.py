"""`concatenate_goal`: one vector of observation and desired goal, for one observation as for a stack."""

import numpy as np
import pytest
import torch

from pfrl_like.preprocessing.features import FeatureExtractor
from pfrl_like.utils.goals import concatenate_goal


def obs_of(i, dtype=np.float64):
    return {
        "observation": np.array([i, 0.5], dtype),
        "achieved_goal": np.array([7], dtype),
        "desired_goal": np.array([-i], dtype),
    }


def test_observation_and_desired_goal_are_joined_as_float32():
    vector = concatenate_goal(obs_of(3))
    assert (vector.tolist(), vector.dtype) == ([3.0, 0.5, -3.0], np.float32)


def test_an_agent_applies_it_to_whole_minibatches():
    features = FeatureExtractor(concatenate_goal)
    stack = {key: torch.from_numpy(np.stack([obs_of(i)[key] for i in range(4)])) for key in obs_of(0)}
    expected = [[float(i), 0.5, float(-i)] for i in range(4)]
    assert features.on_batch(stack, torch.device("cpu")).tolist() == expected
    assert features._on_stack
    assert features([obs_of(i) for i in range(4)], torch.device("cpu")).tolist() == expected


@pytest.mark.parametrize(
    ("obs", "came"), [(np.zeros(2), "ndarray"), ({"observation": np.zeros(2)}, r"a dict with keys \['observation'\]")]
)
def test_observations_without_a_goal_are_refused(obs, came):
    with pytest.raises(ValueError, match=f"obs: got {came}, expected a dict with"):
        concatenate_goal(obs)
