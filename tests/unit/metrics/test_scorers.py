from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from env_forms import InPfrlForm
from experiment_fakes import Counting
from gymnasium.spaces import Box, Discrete

from pfrl_like.dataset import MDPDataset
from pfrl_like.metrics.comparer import compare_continuous_action_diff, compare_discrete_action_match
from pfrl_like.metrics.scorer import (
    average_value_estimation_scorer,
    continuous_action_diff_scorer,
    discounted_sum_of_advantage_scorer,
    discrete_action_match_scorer,
    dynamics_observation_prediction_error_scorer,
    dynamics_prediction_variance_scorer,
    evaluate_on_environment,
    soft_opc_scorer,
    td_error_scorer,
)


class Greedy:
    """Predicts one action, and that its value is 1."""

    def __init__(self, action: object, n_frames: int = 1) -> None:
        self.action, self.n_frames, self.seen = np.asarray(action), n_frames, []

    def predict(self, x: np.ndarray) -> np.ndarray:
        self.seen.append(x)
        return np.stack([self.action] * len(x))

    def predict_value(self, x: np.ndarray, action: np.ndarray, with_std: bool = False) -> np.ndarray:
        return np.ones(len(x))


class Steps(Counting):
    """Pays the action, an integer or the first of several numbers; every third step ends an episode."""

    def __init__(self, n_actions: int | None = 5, cut: bool = False, image: bool = False) -> None:
        super().__init__(3, truncate=cut)
        self.action_space = Discrete(n_actions, seed=0) if n_actions else Box(-1, 1, (2,), seed=0)
        self.observation_space, self.rendered = Box(0, 9, (1, 1, 1) if image else (1,)), 0

    def step(self, action: object) -> tuple:
        assert self.action_space.contains(action)
        self.reward = float(np.ravel(action)[0])
        return super().step(action)

    def _obs(self) -> np.ndarray:
        return np.full(self.observation_space.shape, self.step_in_episode + 1, np.float32)

    def render(self) -> None:
        self.rendered += 1


def data(ends: tuple[int, ...] = (0, 0, 1), width: int = 1, actions: list[int] | None = None) -> MDPDataset:
    """Rows of zeros, whose rewards count up."""
    n = len(ends)
    columns = np.zeros((n, 2)), np.zeros((n, width)) if actions is None else actions, np.arange(n), ends
    return MDPDataset(*columns, discrete_action=actions is not None, reward_convention="next_row")


@pytest.mark.parametrize(
    "env", [Steps(), Steps(cut=True), InPfrlForm(Steps())], ids=["terminated", "truncated", "four values"]
)
def test_the_score_in_an_environment_is_the_mean_return(env: Any) -> None:
    score, steps = evaluate_on_environment(env, n_trials=4), getattr(env, "env", env)
    assert score(Greedy(2)) == 6
    assert steps.n_resets == 4 and steps.rendered == 0
    assert evaluate_on_environment(env, n_trials=2, render=True)(Greedy(2), data().episodes) == 6  # as `fit` calls it
    assert steps.rendered == 6


def test_continuous_actions_are_taken_as_they_are() -> None:
    action = np.array([0.25, -0.5], np.float32)
    assert evaluate_on_environment(Steps(None), n_trials=1)(Greedy(action)) == 0.75


def test_epsilon_is_the_share_of_random_actions() -> None:
    np.random.seed(0)
    assert evaluate_on_environment(Steps(2), n_trials=200, epsilon=0.0)(Greedy(1)) == 3
    # half of the random actions are 0
    assert evaluate_on_environment(Steps(2), n_trials=200, epsilon=1.0)(Greedy(1)) == pytest.approx(1.5, abs=0.2)
    assert evaluate_on_environment(Steps(2), n_trials=200, epsilon=0.4)(Greedy(1)) == pytest.approx(2.4, abs=0.2)


def test_frames_are_stacked_in_an_environment_as_in_a_dataset() -> None:
    algo, exploring = Greedy(1, n_frames=3), Greedy(1, n_frames=2)
    evaluate_on_environment(Steps(image=True), n_trials=2)(algo)
    assert [stack.ravel().tolist() for stack in algo.seen] == [[0, 0, 1], [0, 1, 2], [1, 2, 3]] * 2
    assert algo.seen[0].shape == (1, 3, 1, 1)
    np.random.seed(1)
    evaluate_on_environment(Steps(image=True), n_trials=20, epsilon=0.5)(exploring)
    assert {tuple(stack.ravel().tolist()) for stack in exploring.seen} == {(0, 1), (1, 2), (2, 3)}


def test_evaluation_leaves_the_random_streams_as_they_are() -> None:
    env = Steps()

    def streams() -> list:
        return [
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
            env.action_space.np_random.bit_generator.state,
        ]

    before = streams()
    evaluate_on_environment(env, epsilon=0.5)(Greedy(0))
    assert streams() == before


@pytest.mark.parametrize(("argument", "value"), [("n_trials", 0), ("epsilon", 1.5), ("epsilon", -0.1)])
def test_numbers_out_of_range_are_refused(argument: str, value: float) -> None:
    with pytest.raises(ValueError, match=argument):
        evaluate_on_environment(Steps(), **{argument: value})
    with pytest.raises(TypeError, match=f"{argument} is '1'"):
        evaluate_on_environment(Steps(), **{argument: "1"})


DISCRETE = data((0, 1), actions=[0, 1])


@pytest.mark.parametrize(
    ("scorer", "episodes", "error", "text"),
    [
        (average_value_estimation_scorer, [], ValueError, "episodes"),
        (average_value_estimation_scorer, data((1,)), ValueError, "episodes"),
        (average_value_estimation_scorer, data().observations, TypeError, r"episodes\[0\] is ndarray, expected an E"),
        (partial(average_value_estimation_scorer, window_size=0), data(), ValueError, "window_size"),
        (soft_opc_scorer(3.0), data(), ValueError, "return_threshold: got 3.0, but no return is above 3.0"),
        (continuous_action_diff_scorer, data(width=2), ValueError, r"\(2, 1\)"),
        (continuous_action_diff_scorer, DISCRETE, TypeError, "discrete actions: use discrete_action_match_scorer"),
        (discrete_action_match_scorer, data(), TypeError, "continuous actions: use continuous_action_diff_scorer"),
        (dynamics_observation_prediction_error_scorer, data(), TypeError, "dynamics is Greedy, expected a dynamics"),
        (dynamics_prediction_variance_scorer, data(), TypeError, "dynamics is Greedy, expected a dynamics model"),
    ],
)
def test_what_cannot_be_scored_is_refused(scorer: Any, episodes: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        scorer(Greedy([0.0]), episodes)


def test_episodes_without_a_step_are_left_out() -> None:
    episodes = data((1, 0, 0, 1))
    assert average_value_estimation_scorer(Greedy([0.0]), episodes) == -1
    assert soft_opc_scorer(1.0)(Greedy([0.0]), episodes) == 0


def test_an_iterator_of_episodes_is_scored_as_their_list() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]
    dataset = MDPDataset(rows, 0 * rows, rows[:, 0], rows[:, 0] % 4 == 3, reward_convention="next_row")

    class Algo(Greedy):
        gamma = 0.5

        def predict_value(self, x: np.ndarray, action: np.ndarray, with_std: bool = False) -> np.ndarray:
            return np.asarray(x[:, 0] + action[:, 0])

    algo = Algo([1.0])
    assert discounted_sum_of_advantage_scorer(algo, dataset) == pytest.approx((1 + 1.5 + 1.75) / 3)
    other = compare_continuous_action_diff(Algo([3.0]))
    assert other(algo, dataset) == -4.0
    for scorer in (discounted_sum_of_advantage_scorer, soft_opc_scorer(10), other):
        assert scorer(algo, iter(dataset.episodes)) == scorer(algo, dataset)


@pytest.mark.parametrize(
    "scorer",
    [
        td_error_scorer, continuous_action_diff_scorer, soft_opc_scorer(0.0), dynamics_prediction_variance_scorer,
        evaluate_on_environment(Steps()), compare_continuous_action_diff(Greedy([1.0])),
        compare_discrete_action_match(Greedy(1)),
    ],
)  # fmt: skip
def test_what_predicts_nothing_is_refused_with_what_scores_agents(scorer: Callable[..., float]) -> None:
    class Agent:
        """Acts, and does not predict."""

    with pytest.raises(TypeError, match=r"algo is Agent, expected .* predict: .*eval_performance and ope.evaluate_off"):
        scorer(Agent(), data())


@pytest.mark.parametrize(
    ("maker", "call"),
    [
        (evaluate_on_environment, "env"), (compare_continuous_action_diff, "base_algo"),
        (compare_discrete_action_match, "base_algo"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("told", [True, False], ids=["episodes", "no episodes"])
def test_what_makes_scorers_is_none(maker: Callable[..., object], call: str, told: bool) -> None:
    name = maker.__name__
    with pytest.raises(TypeError, match=rf"{name} was called like a .* a scorer: pass {name}\({call}\) instead"):
        maker(Greedy(1), data() if told else None)


@pytest.mark.parametrize("maker", [compare_continuous_action_diff, compare_discrete_action_match])
def test_comparers_refuse_at_once_what_they_cannot_compare(maker: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="algo is object, expected .* predict"):
        maker(object())
    with pytest.raises(ValueError, match="window_size is 0, expected an integer from 1 on"):
        maker(Greedy(1), 0)
