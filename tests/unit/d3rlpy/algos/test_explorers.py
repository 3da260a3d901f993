"""Actions that explorers of d3rlpy 2.8.1 give for the same seed."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pfrl_like.d3rlpy.algos import ConstantEpsilonGreedy, LinearDecayEpsilonGreedy, NormalNoise
from pfrl_like.d3rlpy.preprocessing import MinMaxActionScaler

OBSERVATIONS = np.arange(8, dtype=np.float32)[:, None]


def discrete() -> Any:
    return SimpleNamespace(action_size=3, predict=lambda x: x[:, 0].astype(np.int64) % 3)


def continuous(action_scaler: Any = None) -> Any:
    return SimpleNamespace(action_scaler=action_scaler, predict=lambda x: np.concatenate([0.1 * x, -0.2 * x], 1))


@pytest.fixture(autouse=True)
def _seed() -> None:
    np.random.seed(0)


@pytest.mark.parametrize("explorer", [ConstantEpsilonGreedy(0.5), LinearDecayEpsilonGreedy(1.0, 0.1, 100)])
def test_epsilon_greedy_actions_are_those_of_d3rlpy(explorer: Any) -> None:
    actions = explorer.sample(discrete(), OBSERVATIONS, 50)
    assert actions.tolist() == [0, 1, 0, 0, 1, 2, 0, 2] and actions.dtype == np.int64


def test_epsilon_decays_linearly_and_stays() -> None:
    explorer = LinearDecayEpsilonGreedy(1.0, 0.1, 100)
    assert [explorer.compute_epsilon(step) for step in (0, 50, 100, 200)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
    assert LinearDecayEpsilonGreedy(1.0, 0.1, 0).compute_epsilon(0) == 0.1


def test_noisy_actions_are_those_of_d3rlpy() -> None:
    actions = NormalNoise(0.1, 0.5).sample(continuous(), OBSERVATIONS[:3], 0)
    expected = [[0.982026172983832, 0.30007860418361165], [0.6893689935429858, 1.0], [1.0, -0.78863894589867]]
    assert np.allclose(actions, expected) and actions.dtype == np.float64


def test_noisy_actions_stay_in_the_range_of_the_action_scaler() -> None:
    scaler = MinMaxActionScaler(minimum=np.array([-0.05, -0.3]), maximum=np.array([0.05, 0.2]))
    actions = NormalNoise(0.1, 0.5).sample(continuous(scaler), OBSERVATIONS[:3], 0)
    assert np.allclose(actions, [[0.05, 0.2], [0.05, 0.2], [0.05, -0.3]])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ConstantEpsilonGreedy(1.5), "epsilon is 1.5"),
        (lambda: LinearDecayEpsilonGreedy(duration=-1), "duration is -1"),
        (lambda: NormalNoise(std=-0.1), "std is -0.1"),
    ],
)
def test_bad_arguments_are_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()
