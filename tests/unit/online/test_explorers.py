from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from pfrl_like import algos, explorers
from pfrl_like.online.explorers import ConstantEpsilonGreedy, LinearDecayEpsilonGreedy, NormalNoise


class Algo:
    """Of four discrete actions, or two continuous ones: always the same."""

    action_size_ = 4

    def __init__(self, action: object) -> None:
        self.action = np.asarray(action)

    def predict(self, x: np.ndarray) -> np.ndarray:
        assert x.shape == (1, 3)
        return self.action[None]


OBS = np.zeros(3)


def test_epsilon_falls_in_a_straight_line() -> None:
    explorer = LinearDecayEpsilonGreedy(0.9, 0.1, 100)
    assert [explorer.compute_epsilon(t) for t in (0, 50, 100, 1000)] == pytest.approx([0.9, 0.5, 0.1, 0.1])
    default = LinearDecayEpsilonGreedy()
    assert (default.start_epsilon, default.end_epsilon, default.duration) == (1.0, 0.1, 1_000_000)
    assert default.compute_epsilon(500_000) == pytest.approx(0.55)


def test_random_actions_are_uniform_and_as_frequent_as_epsilon_says() -> None:
    explorer = LinearDecayEpsilonGreedy(1.0, 0.2, 10, rng=np.random.default_rng(0))
    drawn = [explorer.sample(Algo(3), OBS, step=0) for _ in range(2000)]
    assert np.bincount(drawn) / 2000 == pytest.approx([0.25] * 4, abs=0.04)
    late = [explorer.sample(Algo(3), OBS, step=10) for _ in range(2000)]
    assert np.bincount(late) / 2000 == pytest.approx([0.05, 0.05, 0.05, 0.85], abs=0.03)
    assert type(drawn[0]) is int


def test_noise_has_its_mean_and_deviation() -> None:
    explorer = NormalNoise(mean=0.2, std=0.1, rng=np.random.default_rng(0))
    drawn = np.array([explorer.sample(Algo([0.0, -0.5]), OBS) for _ in range(2000)])
    assert drawn.mean(0) == pytest.approx([0.2, -0.3], abs=0.01) and drawn.std(0) == pytest.approx([0.1, 0.1], abs=0.01)


def test_noisy_actions_stay_in_their_bounds() -> None:
    drawn = np.array([NormalNoise(std=1.0).sample(Algo([0.9, -0.9]), OBS, 5, "ignored") for _ in range(100)])
    assert drawn.max() == 1 and drawn.min() == -1


def test_agents_get_an_explorer_of_the_library_that_chooses_alike() -> None:
    made = LinearDecayEpsilonGreedy(0.9, 0.1, 100).for_actions(Discrete(3, start=2))
    assert isinstance(made, explorers.LinearDecayEpsilonGreedy) and made.compute_epsilon(50) == pytest.approx(0.5)
    assert {made.random_action_func() for _ in range(100)} == {2, 3, 4}
    noise = NormalNoise(0.5, 0.0).for_actions(Box(-2, np.array([2, 0.25], np.float32), (2,)))
    assert isinstance(noise, explorers.AdditiveGaussian)
    assert noise.select_action(0, lambda: np.zeros(2, np.float32)).tolist() == [0.5, 0.25]


def test_the_global_stream_is_the_default() -> None:
    def drawn() -> list:
        np.random.seed(3)
        return [LinearDecayEpsilonGreedy().sample(Algo(3), OBS, 0), *NormalNoise().sample(Algo([0.0, 0.0]), OBS)]

    assert drawn() == drawn()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (LinearDecayEpsilonGreedy, {"start_epsilon": 2}), (LinearDecayEpsilonGreedy, {"end_epsilon": -1}),
        (LinearDecayEpsilonGreedy, {"duration": -1}), (NormalNoise, {"std": -1}),
        (ConstantEpsilonGreedy, {"epsilon": 1.5}),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(kind: type, options: dict) -> None:
    with pytest.raises(ValueError, match="epsilon|decay_steps|scale"):
        kind(**options)


def test_a_constant_epsilon_stays() -> None:
    explorer = ConstantEpsilonGreedy(0.2, rng=np.random.default_rng(0))
    drawn = [explorer.sample(Algo(3), OBS, step) for step in range(2000)]
    assert np.bincount(drawn) / 2000 == pytest.approx([0.05, 0.05, 0.05, 0.85], abs=0.03)
    made = explorer.for_actions(Discrete(3, start=2))
    assert made.compute_epsilon(10**6) == 0.2 and {made.random_action_func() for _ in range(100)} == {2, 3, 4}
    assert ConstantEpsilonGreedy is algos.ConstantEpsilonGreedy


@pytest.mark.parametrize("make", [ConstantEpsilonGreedy, LinearDecayEpsilonGreedy])
def test_the_number_of_actions_may_stand_in_impl(make: Any) -> None:
    class Old(Algo):
        action_size_ = None
        impl = SimpleNamespace(action_size=2)

    assert {make(1.0).sample(Old(3), OBS, 0) for _ in range(50)} == {0, 1}


def test_noise_is_added_to_samples() -> None:
    class Random(Algo):
        def sample_action(self, x: np.ndarray) -> np.ndarray:
            return np.float32([[0.5, -0.5]])

    assert NormalNoise(0.25, 0.0).sample(Random([0.0, 0.0]), OBS).tolist() == [0.75, -0.25]
