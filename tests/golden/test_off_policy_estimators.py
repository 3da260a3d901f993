"""Estimators of off-policy evaluation, worked out by hand.

Two episodes, gamma = 1/2. The first has rewards 1, 2 and ratios 2, 1/2, so weights 2, 1; the second reward 3 and weight
1/2. The model says Q = 2, 1 and V = 1, 2 of the first one's steps, Q = 1 and V = 2 of the other's.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pfrl_like import ope
from pfrl_like.ope.importance_sampling import least_square_on_simplex

SETTINGS = ope.Bootstrap(n_resamples=10, rng=np.random.default_rng(0))
pytestmark = pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning")


def two_episodes(**truncated: Any) -> ope.LoggedEpisodes:
    behavior = np.log([0.25, 0.5, 0.5])
    return ope.LoggedEpisodes.from_columns(
        [1, 2, 3], behavior + np.log([2, 0.5, 0.5]), behavior, [2, 1], q=[2, 1, 1], v=[1, 2, 2], **truncated
    )


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # Returns are 1 + 2/2 = 2 and 3, last weights 1 and 1/2.
        (ope.importance_sampling, (1 * 2 + 3 / 2) / 2),
        (ope.weighted_importance_sampling, (1 * 2 + 3 / 2) / (1 + 1 / 2)),
        # 2 * 1 + 1/2 * 1 * 2 = 3 and 1/2 * 3.
        (ope.per_decision_importance_sampling, (3 + 1.5) / 2),
        # Step 0: (2 * 1 + 1/2 * 3) / (5/2); step 1, where the second is over: (1 * 2 + 1/2 * 0) / (3/2), times 1/2.
        (ope.weighted_per_decision_importance_sampling, 3.5 / 2.5 + 2 / 1.5 / 2),
        # 1 + 2 (1 + 1/2 * 2 - 2) + 1/2 * 1 (2 - 1) = 3/2 and 2 + 1/2 (3 - 1) = 3.
        (ope.doubly_robust, (1.5 + 3) / 2),
        # V: (1 + 2) / 2 and 1/2 (2 * 2) / (5/2); r - Q: (2 * -1 + 1/2 * 2) / (5/2) and 1/2 (1 * 1) / (3/2).
        (ope.weighted_doubly_robust, 1.5 + 0.8 - 0.4 + 1 / 3),
    ],
)
def test_estimate_of_two_episodes(estimator: Callable[..., ope.Estimate], expected: float) -> None:
    found = estimator(two_episodes(), 0.5, SETTINGS)
    assert found.value == pytest.approx(expected)
    # (1 + 1/2)**2 / (1 + 1/4)
    assert (found.n_episodes, found.n_truncated, found.effective_sample_size) == (2, 0, pytest.approx(1.8))


@pytest.mark.parametrize(
    ("estimator", "more"),
    # 1/2 * 1/2 * 4 in one of two episodes; 1/2 * (1/2 * 4) / (5/2).
    [(ope.doubly_robust, 0.5), (ope.weighted_doubly_robust, 0.4), (ope.importance_sampling, 0.0)],
)
def test_an_episode_that_was_cut_off_goes_on_in_the_model(estimator: Callable[..., Any], more: float) -> None:
    cut = estimator(two_episodes(truncated=[False, True], last_v=[7, 4]), 0.5, SETTINGS)
    assert cut.n_truncated == 1
    assert cut.value == pytest.approx(estimator(two_episodes(), 0.5, SETTINGS).value + more)


def test_magic_mixes_model_and_weights_so_that_they_vary_least() -> None:
    # One step each. V says 1 and 2, r - Q is 2 and -1: the model alone gives 3/2 (episodes pull by -1/2, 1/2), with the
    # weights it is 2 (they pull by 1, -1; standard error 1, so 3/2 is near). 2/3 and 1/3 of them do not vary at all.
    episodes = ope.LoggedEpisodes.from_columns([2, -1], [0, 0], [0, 0], [1, 1], q=[0, 0], v=[1, 2])
    assert ope.magic(episodes, 0.5, SETTINGS).value == pytest.approx(2 / 3 * 1.5 + 1 / 3 * 2)


def test_magic_leaves_a_model_that_is_far_from_what_the_weights_say() -> None:
    # The model alone gives 50 without variance; with the weights it is 2, standard error sqrt((1/4 * 4) / 12) = 0.289.
    # It is 48 - 1.645 * 0.289 = 47.525 away, so that its share is 1 / (1 + 47.525**2 / 0.0833).
    reward = np.array([1.5, 2.5, 1.5, 2.5])
    episodes = ope.LoggedEpisodes.from_columns(reward, [0] * 4, [0] * 4, [1] * 4, q=[50] * 4, v=[50] * 4)
    assert ope.magic(episodes, 0.5, SETTINGS).value == pytest.approx(2 + 48 / (1 + 47.525**2 / 0.08333), abs=1e-5)


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[1, 0], [0, 3]], [0.75, 0.25]),  # inverse to the variances
        ([[1, 2], [2, 5]], [1, 0]),  # the second one only adds
        ([[4, 0, 0], [0, 4, 3.9], [0, 3.9, 4]], [3.95 / 7.95, 2 / 7.95, 2 / 7.95]),  # the last two count as one of 3.95
        ([[0, 0], [0, 0]], [0.5, 0.5]),
    ],
)
def test_least_square_on_simplex(matrix: Any, expected: Any) -> None:
    np.testing.assert_allclose(least_square_on_simplex(np.array(matrix, np.float64)), expected, atol=1e-6)
