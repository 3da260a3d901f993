"""Observations of goal environments: dicts that contain the observation, the achieved goal and the desired goal.

The keys are the keys of gymnasium's `GoalEnv`: `observation`, `achieved_goal` (the goal that the current state
achieves) and `desired_goal`. `compute_reward(achieved_goal, desired_goal, info)` returns the reward for any pair of
goals.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

OBSERVATION = "observation"
ACHIEVED_GOAL = "achieved_goal"
DESIRED_GOAL = "desired_goal"


def concatenate_goal(obs: Mapping[str, Any]) -> NDArray[np.float32]:
    """Concatenate observation and desired goal. A `phi` for goal-conditioned agents (arXiv:1707.01495, section 4.1).

    Args:
        obs: Dict with `observation` [..., m] and `desired_goal` [..., n]; other entries are ignored.

    Returns:
        Array [..., m + n], float32.

    Raises:
        ValueError: If a key is missing, or if the shapes of `observation` and `desired_goal` do not match.
    """
    if not isinstance(obs, Mapping) or OBSERVATION not in obs or DESIRED_GOAL not in obs:
        got = f"a dict with keys {list(obs)}" if isinstance(obs, Mapping) else type(obs).__name__
        raise ValueError(f"obs: got {got}, expected a dict with {OBSERVATION!r} and {DESIRED_GOAL!r}")
    return np.concatenate([obs[OBSERVATION], obs[DESIRED_GOAL]], axis=-1, dtype=np.float32)
