"""Off-policy evaluation where the truth is known: intervals hold it as often as they say, FQE comes close to it."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [
    pytest.mark.skipif(not BENCHMARKS.exists(), reason="benchmarks/ is not here"),
    pytest.mark.filterwarnings("ignore::pfrl_like.ope.UnreliableEstimateWarning"),
]
ESTIMATORS = ("is", "wis", "pdis", "wpdis", "dr", "wdr", "magic")


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("ope_coverage")


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("fqe_accuracy")


def test_the_truth_of_a_task_is_the_mean_of_its_policys_own_returns(coverage: Any) -> None:
    task = coverage.TASKS["varied lengths"]
    own = dataclasses.replace(task, behavior=task.target, n_episodes=20_000)
    episodes = own.episodes(np.random.default_rng(0), *own.values())
    returns = (episodes.reward * task.gamma ** np.arange(episodes.reward.shape[1])).sum(1)
    assert abs(returns.mean() - task.truth) < 4 * returns.std() / np.sqrt(len(returns))
    assert set(episodes.lengths) == set(range(1, task.horizon + 1))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("task", ["short", "long", "varied lengths", "few episodes"])
def test_intervals_of_95_percent_hold_the_truth_in_92_to_98_percent_of_500_data_sets(
    coverage: Any, task: str, estimator: str
) -> None:
    found = coverage.measured(coverage.TASKS[task], estimator, "studentized", 500, 1_000, 0)
    assert 0.92 <= found["coverage"] <= 0.98


@pytest.mark.slow
def test_policies_that_are_too_far_apart_are_warned_of(coverage: Any) -> None:
    """Also where the largest weights are missing, so that they look well, and intervals are wrong."""
    found = coverage.measured(coverage.TASKS["far apart"], "wis", "studentized", 40, 100, 0)
    assert found["warned"] > 0.9
    for task in ("short", "few episodes"):
        assert coverage.measured(coverage.TASKS[task], "wis", "studentized", 20, 100, 0)["warned"] == 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("task", ["cartpole", "pendulum"])
def test_fitted_q_evaluation_comes_within_a_tenth_of_the_true_return(accuracy: Any, task: str) -> None:
    assert accuracy.measured(accuracy.TASKS[task], seed=0)["error"] < 0.1
