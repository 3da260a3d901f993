import functools
from typing import Any

import numpy as np
import pytest
import torch

from pfrl_like import explorers
from pfrl_like.action_value import DiscreteActionValue


@pytest.mark.parametrize(
    "explorer", [explorers.AdditiveGaussian(0.5), explorers.AdditiveOU()], ids=lambda made: type(made).__name__
)
def test_noise_on_integers_is_refused_with_a_way_out(explorer: Any) -> None:
    message = f"{type(explorer).__name__}: greedy actions have dtype int64, expected floating.* epsilon-greedy explorer"
    with pytest.raises(TypeError, match=message):
        explorer.select_actions(0, np.array([0, 1]))
    with pytest.raises(TypeError, match=message):
        explorer.select_action(0, lambda: np.int64(1))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
@pytest.mark.parametrize(
    "explorer",
    [
        functools.partial(explorers.AdditiveGaussian, 1.0),
        explorers.AdditiveOU,
        explorers.Boltzmann,
        functools.partial(explorers.ConstantEpsilonGreedy, 0.5, lambda: 7),
        functools.partial(explorers.LinearDecayEpsilonGreedy, 0.5, 0.5, 1, lambda: 7),
        functools.partial(explorers.ExponentialDecayEpsilonGreedy, 0.5, 0.5, 0.5, lambda: 7),
    ],
)
def test_generator_of_its_own_is_all_that_is_drawn_from(explorer: Any, make: Any) -> None:
    greedy, value = np.zeros(50), DiscreteActionValue(torch.zeros(50, 3))
    before = str(np.random.get_state())
    first, second = (explorer(rng=make(1)).select_actions(0, greedy, value).tolist() for _ in range(2))
    assert first == second
    assert explorer(rng=make(2)).select_actions(0, greedy, value).tolist() != first
    assert str(np.random.get_state()) == before
