"""Numbers that d3rlpy 2.8.1 gives for the same algorithms and datasets."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from experiment_fakes import Counting
from gymnasium.spaces import Box, Tuple

from pfrl_like.d3rlpy import metrics
from pfrl_like.d3rlpy.dataset import MDPDataset, MultiStepTransitionPicker
from pfrl_like.d3rlpy.preprocessing import MinMaxRewardScaler

near = pytest.approx


def column(*values: float) -> Any:
    return np.array(values, np.float32)[:, None]


def dataset_of(actions: Any) -> MDPDataset:
    """An episode that ends in a terminal state, and one that is truncated; the returns are 111 and 222."""
    rewards = np.array([1, 10, 100, 2, 20, 200], np.float32)
    return MDPDataset(column(1, 2, 3, 5, 7, 9), actions, rewards, np.eye(6)[2], np.eye(6)[5])


class Algo:
    """Its greedy action is the observation plus `shift` modulo 3, its value 2 * observation + action^2."""

    gamma, reward_scaler = 0.5, None

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift

    def predict(self, x: Any) -> Any:
        return (x[:, 0].astype(np.int64) + self.shift) % 3

    def predict_value(self, x: Any, action: Any) -> Any:
        return (2 * x[:, 0] + np.reshape(action, -1) ** 2).astype(np.float32)


class ContinuousAlgo(Algo):
    def predict(self, x: Any) -> Any:
        return np.concatenate([0.1 * x + self.shift, -0.2 * x], 1).astype(np.float32)

    def predict_value(self, x: Any, action: Any) -> Any:
        return (2 * x[:, 0] + 3 * action[:, 0] - action[:, 1]).astype(np.float32)


DISCRETE = dataset_of(np.array([0, 2, 1, 1, 2, 0]))
CONTINUOUS = dataset_of(
    np.array([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6], [-0.7, 0.8], [0.9, 0.0], [0.0, 0.1]], np.float32)
)
#: One episode of 1500 transitions, in two windows.
LONG = MDPDataset(
    np.arange(1500, dtype=np.float32)[:, None] / 100, np.arange(1500) % 3, np.ones(1500), np.eye(1500)[-1]
)
ANSWERS: dict[str, tuple[Any, MDPDataset, dict[str, float]]] = {
    "discrete": (
        Algo, DISCRETE,
        {"TDError": 1761.25, "DiscountedSumOfAdvantage": 0.45, "AverageValueEstimation": 9.2,
         "InitialStateValueEstimation": 8.5, "DiscreteActionMatch": 0.2},
    ),
    "continuous": (
        ContinuousAlgo, CONTINUOUS,
        {"TDError": 1793.1993711948394, "DiscountedSumOfAdvantage": -1.5199997186660767, "AverageValueEstimation": 9.0,
         "InitialStateValueEstimation": 7.5, "ContinuousActionDiff": 1.665999948233366},
    ),
    "long": (
        Algo, LONG,
        {"TDError": 75.1531498740452, "DiscountedSumOfAdvantage": -0.002095245008677807,
         "AverageValueEstimation": 16.6566666666617, "InitialStateValueEstimation": 10.739999771118164,
         "DiscreteActionMatch": 0.34},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_numbers_are_those_of_d3rlpy(name: str) -> None:
    algo, dataset, answers = ANSWERS[name]
    found = {evaluator: getattr(metrics, f"{evaluator}Evaluator")()(algo(), dataset) for evaluator in answers}
    assert found == near(answers)
    assert {type(value) for value in found.values()} == {float}


@pytest.mark.parametrize(("algo", "dataset", "difference"), [(Algo, DISCRETE, 5.3), (ContinuousAlgo, CONTINUOUS, 4.28)])
def test_an_episode_that_returns_the_threshold_is_a_success(algo: Any, dataset: MDPDataset, difference: float) -> None:
    assert metrics.SoftOPCEvaluator(222.0)(algo(), dataset) == near(difference)
    assert metrics.SoftOPCEvaluator(111.0)(algo(), dataset) == near(0.0)


@pytest.mark.filterwarnings("error")
def test_soft_opc_without_success_is_nan() -> None:
    assert np.isnan(metrics.SoftOPCEvaluator(223.0)(Algo(), DISCRETE))


def test_other_algorithms_are_compared_by_their_greedy_actions() -> None:
    assert metrics.CompareDiscreteActionMatchEvaluator(Algo(1))(Algo(), DISCRETE) == 0.0
    assert metrics.CompareDiscreteActionMatchEvaluator(Algo(3))(Algo(), DISCRETE) == 1.0
    assert metrics.CompareContinuousActionDiffEvaluator(ContinuousAlgo(1))(ContinuousAlgo(), CONTINUOUS) == near(1.0)


def test_errors_are_those_of_scaled_rewards() -> None:
    algo = Algo()
    algo.reward_scaler = MinMaxRewardScaler(minimum=0.0, maximum=200.0)
    assert metrics.TDErrorEvaluator()(algo, DISCRETE) == near(32.432522773742676)


def test_gamma_is_not_raised_to_the_interval() -> None:
    dataset = MDPDataset(
        column(1, 2, 3, 5, 7, 9), np.array([0, 2, 1, 1, 2, 0]), np.array([1, 10, 100, 2, 20, 200], np.float32),
        np.eye(6)[2], np.eye(6)[5], transition_picker=MultiStepTransitionPicker(2, 0.5),
    )  # fmt: skip
    assert metrics.TDErrorEvaluator()(Algo(), dataset) == near(2324.6)


def test_given_episodes_are_evaluated_in_place_of_those_of_the_dataset() -> None:
    assert metrics.TDErrorEvaluator(DISCRETE.episodes[:1])(Algo(), DISCRETE) == near(2894.3333333333335)
    assert metrics.TDErrorEvaluator([])(Algo(), DISCRETE) == near(1761.25)


def test_tuples_of_observations_are_stacked_by_part() -> None:
    parts = np.arange(3, dtype=np.float32)[:, None], 10 * np.arange(3, dtype=np.float32)[:, None, None]
    dataset = MDPDataset(parts, np.zeros(3, int), np.ones(3), np.zeros(3), np.eye(3)[2])
    algo = SimpleNamespace(
        predict=lambda x: np.zeros(len(x[0]), int), predict_value=lambda x, action: x[0][:, 0] + x[1][:, 0, 0]
    )
    assert metrics.AverageValueEstimationEvaluator()(algo, dataset) == near(5.5)  # (0 + 11) / 2
    assert metrics.InitialStateValueEstimationEvaluator()(algo, dataset) == near(0.0)


def test_the_other_kind_of_actions_is_refused() -> None:
    with pytest.raises(TypeError, match="use an evaluator of differences"):
        metrics.DiscreteActionMatchEvaluator()(ContinuousAlgo(), CONTINUOUS)
    with pytest.raises(ValueError, match="predictions have shape"):
        metrics.ContinuousActionDiffEvaluator()(Algo(), DISCRETE)


def test_data_of_other_fronts_are_refused() -> None:
    with pytest.raises(TypeError, match=r"dataset is list, expected a ReplayBuffer of pfrl_like\.d3rlpy\.dataset"):
        metrics.TDErrorEvaluator()(Algo(), [])
    with pytest.raises(TypeError, match=r"episodes has a int, expected episodes of pfrl_like\.d3rlpy\.dataset"):
        metrics.TDErrorEvaluator([1])


# Environments


class Paying(Counting):
    """Pays the action; an episode has three steps."""

    def __init__(self) -> None:
        super().__init__(3)
        self.action_space.n = 3

    def step(self, action: Any) -> Any:
        self.reward = float(action)
        return super().step(action)


class OfPairs(Paying):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = Tuple([Box(-1, 1000, (1,)), Box(-1, 1000, (1, 1))])

    def _obs(self) -> Any:
        step = np.float32([self.step_in_episode])
        return step, step[None]


def test_the_mean_return_of_greedy_actions() -> None:
    assert metrics.evaluate_qlearning_with_environment(Algo(1), Paying(), n_trials=2) == 3.0  # 1 + 2 + 0
    assert metrics.EnvironmentEvaluator(Paying(), n_trials=2)(Algo(1), DISCRETE) == 3.0


def test_a_tuple_of_observations_reaches_predict_as_a_list() -> None:
    shapes = []

    def predict(x: Any) -> Any:
        shapes.append([each.shape for each in x])
        return np.array([2])

    algo = SimpleNamespace(predict=predict)
    assert metrics.EnvironmentEvaluator(OfPairs(), n_trials=1)(algo, None) == 6.0
    assert shapes == [[(1, 1), (1, 1, 1)]] * 3


def test_bad_arguments_are_refused_before_training() -> None:
    with pytest.raises(ValueError, match="epsilon is 2"):
        metrics.EnvironmentEvaluator(Paying(), epsilon=2)
