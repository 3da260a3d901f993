"""Sequences recorded from PFRL 0.4.0 after `np.random.seed(0)`, and the next number of the stream after them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import explorer as interface
from pfrl_like import explorers
from pfrl_like.action_value import DiscreteActionValue


def random_action() -> int:
    return np.random.randint(10)


VALUE = DiscreteActionValue(torch.tensor([[1.0, 2.0, 0.5]]))

CASES: dict[str, tuple[Callable[[], Any], list[Any], float]] = {
    "constant": (
        lambda: explorers.ConstantEpsilonGreedy(0.5, random_action),
        [-1, -1, -1, -1, 5, 7, -1, -1, 6, -1, 1, -1, 9, -1, 5, -1, -1, -1, -1, 3],
        0.6788795301189603,
    ),
    "linear": (
        lambda: explorers.LinearDecayEpsilonGreedy(1.0, 0.1, 15, random_action),
        [5, 3, 3, 4, 8, -1, 6, -1, 1, -1, 9, -1, -1, -1, 0, -1, -1, -1, -1, -1],
        0.6399210213275238,
    ),
    "exponential": (
        lambda: explorers.ExponentialDecayEpsilonGreedy(1.0, 0.1, 0.9, random_action),
        [5, 3, -1, 2, 6, 1, -1, -1, -1, -1, 9, -1, -1, -1, 0, -1, -1, -1, -1, 0],
        0.5820197920751071,
    ),
    "boltzmann": (
        lambda: explorers.Boltzmann(0.7),
        [1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1, 1, 2, 0, 0, 0, 1, 1, 1],
        0.978618342232764,
    ),
    "gaussian clipped": (
        lambda: explorers.AdditiveGaussian(0.5, low=-0.6, high=[0.4, 0.7]),
        [[0.4, 0.2000786], [0.4, 0.7], [0.4, -0.4886389], [0.4, -0.0756786], [-0.0516094, 0.2052993]],
        0.7917250380826646,
    ),
    "gaussian of two scales": (
        lambda: explorers.AdditiveGaussian([0.5, 2.0]),
        [[0.8820262, 0.8003144], [0.489369, 4.4817863], [0.933779, -1.9545557]],
        0.4375872112626925,
    ),
    "ou": (
        explorers.AdditiveOU,
        [
            [1.0046186, 0.2278875],
            [1.1475472, 0.8659723],
            [1.5356826, 0.4428931],
            [1.5903567, 0.3310519],
            [1.3208375, 0.4045737],
        ],
        0.7917250380826646,
    ),
    "ou from mu": (
        lambda: explorers.AdditiveOU(mu=0.2, theta=0.5, sigma=np.array([0.1, 0.4]), start_with_mu=True),
        [[0.2, 0.2], [0.3764052, 0.3600629], [0.3860764, 1.1763887], [0.479794, 0.2972832]],
        0.4375872112626925,
    ),
}


def one(explorer: Any, t: int, greedy: Any) -> Any:
    return explorer.select_action(t, lambda: greedy, action_value=VALUE)


def batch_of_one(explorer: Any, t: int, greedy: Any) -> Any:
    return interface.select_actions(explorer, t, np.asarray(greedy)[None], VALUE)[0]


@pytest.mark.parametrize("select", [one, batch_of_one])
@pytest.mark.parametrize("case", CASES)
def test_actions_are_those_of_pfrl(case: str, select: Callable[..., Any]) -> None:
    make, expected, next_draw = CASES[case]
    discrete = isinstance(expected[0], int)
    greedy = np.int64(-1) if discrete else np.zeros(2, dtype=np.float32)
    np.random.seed(0)
    explorer = make()
    actions = [select(explorer, t, greedy) for t in range(len(expected))]
    assert discrete or all(action.dtype == np.float32 for action in actions)
    np.testing.assert_allclose(actions, expected, atol=1e-7)
    assert math.isclose(np.random.rand(), next_draw)
