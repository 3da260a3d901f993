"""Scores of algorithms and dynamics models, worked out by hand from tables of values.

Three steps; the observation is the number of the state, V and the greedy action are the largest Q and where it is.

    state 0 --action 0, reward 1--> 1 --action 1, reward 2--> 2 (terminal)        Q    action 0  action 1   greedy
    state 3 --action 1, reward 4--> 0 (cut off)                                   0        1         3         1
                                                                                  1        6         5         0
    gamma is 0.5; rewards before any action are 7 and 8.                          2        9         9         0
                                                                                  3        4        -2         0
"""

from typing import Any

import numpy as np
import pytest

from pfrl_like import metrics
from pfrl_like.dataset import Episode, MDPDataset
from pfrl_like.metrics import comparer, scorer

Q = np.array([[1.0, 3.0], [6.0, 5.0], [9.0, 9.0], [4.0, -2.0]])
WINDOWS = pytest.mark.parametrize("window_size", [1, 2, 1024])


class Tabular:
    """An algorithm whose values stand in a table; their deviations are a tenth of them."""

    gamma, n_frames = 0.5, 1

    def __init__(self, q: np.ndarray = Q) -> None:
        self.q, self.largest = q, 0

    def predict(self, x: Any) -> Any:
        self.largest = max(self.largest, len(x))
        return self.q[x[:, 0].astype(int)].argmax(1)

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> Any:
        assert action.shape == (len(x),)
        value = self.q[x[:, 0].astype(int), action]
        return (value, np.abs(value) / 10) if with_std else value


class Linear:
    """An algorithm of two continuous actions: (s, scale * s)."""

    def __init__(self, scale: float = 2.0) -> None:
        self.scale = scale

    def predict(self, x: Any) -> Any:
        return np.concatenate([x, self.scale * x], 1)


class Mover:
    """A dynamics model: the state moves on by one, rewards are 10 times the action, the variance is the state."""

    n_frames = 1

    def predict(self, x: Any, action: Any, with_variance: bool = False) -> Any:
        predicted = x + 1, 10.0 * np.reshape(action, (-1, 1))
        return (*predicted, x) if with_variance else predicted


def discrete() -> MDPDataset:
    states, actions = np.array([[0], [1], [2], [3], [0]], np.float32), np.array([0, 1, 0, 1, 0])
    return MDPDataset(
        states, actions, [7.0, 1, 2, 8, 4], [0, 0, 1, 0, 0], discrete_action=True, reward_convention="next_row"
    )


def continuous() -> MDPDataset:
    states, actions = np.array([[0], [1], [2]], np.float32), np.array([[0, 1], [1, 0], [5, 5]], np.float32)
    return MDPDataset(states, actions, [0.0, 1, 2], [0, 0, 1], reward_convention="next_row")


@WINDOWS
@pytest.mark.parametrize(
    ("score", "expected"),
    [
        # (1 - (1 + 0.5 * 6))^2, (5 - 2)^2 as state 2 is terminal, (-2 - (4 + 0.5 * 3))^2
        (scorer.td_error_scorer, -(9 + 9 + 56.25) / 3),
        # advantages 1 - 3, 5 - 6 | -2 - 4; sums -2 + 0.5 * -1, -1 | -6
        (scorer.discounted_sum_of_advantage_scorer, (2.5 + 1 + 6) / 3),
        (scorer.average_value_estimation_scorer, -(3 + 6 + 4) / 3),
        (scorer.value_estimation_std_scorer, -(0.3 + 0.6 + 0.4) / 3),
        (scorer.initial_state_value_estimation_scorer, (3 + 4) / 2),
        # returns 1 + 2 and 4; only the latter is above 3
        (scorer.soft_opc_scorer(3.0), -2 - (1 + 5 - 2) / 3),
        (scorer.soft_opc_scorer(2.9), (1 + 5 - 2) / 3 - (1 + 5 - 2) / 3),
    ],
)
def test_scores_of_values(score: Any, expected: float, window_size: int) -> None:
    algo = Tabular()
    assert score(algo, discrete(), window_size) == pytest.approx(expected, abs=1e-12)
    assert score(algo, discrete().episodes, window_size=window_size) == pytest.approx(expected, abs=1e-12)
    assert algo.largest <= window_size


def test_discrete_actions_may_be_predicted_as_a_column() -> None:
    class InAColumn(Tabular):
        def predict(self, x: Any) -> Any:
            return super().predict(x)[:, None]

    q = Q * [[-1], [-1], [1], [1]]
    assert scorer.discrete_action_match_scorer(InAColumn(q), discrete()) == pytest.approx(2 / 3)
    assert comparer.compare_discrete_action_match(Tabular())(InAColumn(q), discrete()) == pytest.approx(1 / 3)


@WINDOWS
def test_scores_of_discrete_actions(window_size: int) -> None:
    assert scorer.discrete_action_match_scorer(Tabular(), discrete(), window_size) == 0
    other = Tabular(Q * [[-1], [-1], [1], [1]])  # greedy in states 0, 1, 3: actions 0, 1, 0; the data have 0, 1, 1
    assert scorer.discrete_action_match_scorer(other, discrete(), window_size) == pytest.approx(2 / 3)
    assert comparer.compare_discrete_action_match(Tabular(), window_size)(other, discrete()) == pytest.approx(1 / 3)


@WINDOWS
def test_scores_of_continuous_actions(window_size: int) -> None:
    # greedy (0, 0) and (1, 2), data (0, 1) and (1, 0)
    score = scorer.continuous_action_diff_scorer(Linear(), continuous(), window_size)
    assert score == pytest.approx(-(1 + 4) / 2)
    # (0, 0) and (1, 5) by the other one
    score = comparer.compare_continuous_action_diff(Linear(5.0), window_size)(Linear(), continuous())
    assert score == pytest.approx(-(0 + 9) / 2)


@WINDOWS
def test_scores_of_dynamics(window_size: int) -> None:
    # predicted states 1, 2, 4, true ones 1, 2, 0; rewards 0, 10, 10, true ones 1, 2, 4; variances 0, 1, 3
    model, data = Mover(), discrete()
    observation_error = scorer.dynamics_observation_prediction_error_scorer(model, data, window_size)
    assert observation_error == pytest.approx(-16 / 3)
    reward_error = scorer.dynamics_reward_prediction_error_scorer(model, data, window_size)
    assert reward_error == pytest.approx(-(1 + 64 + 36) / 3)
    assert scorer.dynamics_prediction_variance_scorer(model, data, window_size) == pytest.approx(-4 / 3)


def test_observations_of_several_numbers_count_each() -> None:
    observations = np.array([[0, 0], [1, 3]], np.float32)
    data = MDPDataset(observations, [0, 0], [0.0, 1], [0, 1], discrete_action=True, reward_convention="next_row")
    # predicted (1, 1), true (1, 3)
    assert scorer.dynamics_observation_prediction_error_scorer(Mover(), data) == -4


class OfFrames(Tabular):
    """Q(s, a) is ten times the first frame, and the last one, and the action."""

    def __init__(self, n_frames: int = 2) -> None:
        self.n_frames = n_frames

    def predict(self, x: Any) -> Any:
        assert x.shape[1:] == (self.n_frames, 1, 1)
        return (x[:, 0, 0, 0] > 1).astype(int)

    def predict_value(self, x: Any, action: Any, with_std: bool = False) -> Any:
        return 10.0 * x[:, 0, 0, 0] + x[:, -1, 0, 0] + action


def test_frames_are_stacked_as_the_algorithm_has_learnt_them() -> None:
    images = np.arange(1, 5, dtype=np.float32).reshape(4, 1, 1, 1)
    data = MDPDataset(
        images, [0, 0, 0, 0], [0.0, 1, 1, 1], [0, 0, 0, 1], discrete_action=True, reward_convention="next_row"
    )
    # stacks 01, 12, 23, in which the greedy actions are 0, 0, 1: 1, 12, 23 + 1
    assert scorer.average_value_estimation_scorer(OfFrames(), data) == pytest.approx(-(1 + 12 + 24) / 3)
    assert scorer.initial_state_value_estimation_scorer(OfFrames(), data) == 1
    # next stacks 12, 23, 34 with values 12, 24, 35, the last one terminal; own values 1, 12, 23
    errors = np.array([1 - (1 + 6), 12 - (1 + 12), 23 - 1])
    assert scorer.td_error_scorer(OfFrames(), data) == pytest.approx(-(errors**2).mean())
    # one frame: 1, 2, 3, of which the latter two are above 1; of two frames only 23 has a first one above 1
    assert comparer.compare_discrete_action_match(OfFrames(1))(OfFrames(), data) == pytest.approx(2 / 3)


def test_episodes_of_several_datasets_are_scored_together() -> None:
    single = Episode((1,), 2, np.array([[3.0], [2.0]]), np.array([1, 0]), np.array([0.0, 4.0]))
    episodes = [*discrete().episodes, single, *discrete().episodes[:1]]
    score = scorer.discounted_sum_of_advantage_scorer(Tabular(), episodes)
    assert score == pytest.approx((2.5 + 1 + 6 + 6 + 2.5 + 1) / 6)


def test_every_scorer_is_in_the_package_too() -> None:
    for module in (scorer, comparer):
        for name, function in vars(module).items():
            if callable(function) and function.__module__ == module.__name__ and name.endswith(("scorer", "match")):
                assert getattr(metrics, name) is function
    assert metrics.evaluate_on_environment is scorer.evaluate_on_environment
