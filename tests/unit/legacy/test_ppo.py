"""PFRL's functions of PPO."""

import math
from typing import Any

import numpy as np

from pfrl_like.agents.ppo import _compute_explained_variance


def test_the_explained_variance_has_double_precision_and_needs_steps() -> None:
    for number in (float, np.float64, lambda value: np.asarray([value])):
        steps: list[Any] = [{"v_pred": number(1e9 + i), "v_teacher": 1e9 + 2.0 * i} for i in range(3)]
        assert _compute_explained_variance(steps) == 0.75
    assert math.isnan(_compute_explained_variance([]))
