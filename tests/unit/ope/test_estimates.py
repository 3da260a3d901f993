"""What comes with an estimate: its interval, warnings, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pfrl_like import ope
from pfrl_like.ope.estimates import error_freedom, interval, student_quantile


def episodes(n: int = 50, ratio: float = 1.0, **columns: Any) -> ope.LoggedEpisodes:
    """Episodes of one step, every second of which has a ratio."""
    rng = np.random.default_rng(0)
    target = np.where(np.arange(n) % 2 == 0, np.log(ratio), 0.0) - 1.0
    return ope.LoggedEpisodes.from_columns(rng.normal(size=n), target, np.full(n, -1.0), [1] * n, **columns)


def test_intervals_come_from_the_quantiles_that_their_kinds_name() -> None:
    values, errors = np.linspace(9, 13, 401), np.full(401, 2.0)
    influence = np.array([-1.0, 1.0])
    resamples = np.stack([values, errors])
    assert interval("percentile", 0.9, 10.0, 1.0, influence, resamples) == pytest.approx((9.2, 12.8))
    # Distances (value - 10) / 2 have the quantiles -0.4 and 1.4, and are turned around. Two episodes of one influence
    # leave one degree of freedom, for which Student's quantile is 6.3138 in the place of 1.6449: 3.8385 times as much.
    assert interval("studentized", 0.9, 10.0, 1.0, influence, resamples) == pytest.approx((4.626, 11.535), abs=2e-3)
    # 25 % of the values lie below 10: bias -0.674, hence quantiles Phi(2 * -0.674 -+ 1.645) = 0.0014 and 0.617.
    assert interval("bca", 0.9, 10.0, 1.0, influence, resamples) == pytest.approx((9.0055, 11.467), abs=2e-2)
    # In the midst there is no bias, and without skewness BCa is the percentile interval.
    assert interval("bca", 0.9, 11.0, 1.0, influence, resamples) == pytest.approx((9.2, 12.8), abs=1e-3)
    # Skewness: influence 2, -1, -1 gives acceleration 6 / (6 * 6**1.5) = 0.068.
    skewed = np.array([2.0, -1, -1])
    assert interval("bca", 0.9, 11.0, 1.0, skewed, resamples) == pytest.approx((9.278, 12.871), abs=2e-3)


@pytest.mark.parametrize(
    ("level", "freedom", "expected"),
    [(0.975, 1.0, 12.706), (0.975, 5.0, 2.571), (0.95, 30.0, 1.697), (0.995, 2.0, 9.925), (0.975, 1e6, 1.960)],
)
def test_quantiles_of_student_are_those_of_tables(level: float, freedom: float, expected: float) -> None:
    assert student_quantile(level, freedom) == pytest.approx(expected, rel=1e-3)


def test_an_error_has_as_many_degrees_of_freedom_as_episodes_make_it_up() -> None:
    assert error_freedom(np.array([2.0, -2.0] * 20)) == pytest.approx(39)
    assert error_freedom(np.array([2.0, -1.0, 1.0, 1.0, -1.0])) == pytest.approx(8**2 / 20 - 1)
    assert error_freedom(np.array([1e200, *[1e-3] * 50])) == error_freedom(np.zeros(5)) == 1.0


@pytest.mark.parametrize("kind", ["percentile", "bca", "studentized"])
def test_an_interval_is_that_of_its_settings(kind: str) -> None:
    def found(seed: int, **settings: Any) -> ope.Estimate:
        given = ope.Bootstrap(kind, rng=np.random.default_rng(seed), **settings)
        return ope.weighted_importance_sampling(episodes(), 1.0, given)

    first, narrow = found(0), found(0, confidence=0.5)
    assert first == found(0) and first.interval != found(1).interval != found(1, n_resamples=10).interval
    assert first.interval[0] < narrow.interval[0] < first.value < narrow.interval[1] < first.interval[1]
    assert (first.kind, first.confidence, narrow.confidence) == (kind, 0.95, 0.5)


def test_the_default_interval_draws_from_numpys_global_stream() -> None:
    np.random.seed(0)
    first = ope.importance_sampling(episodes(), 1.0)
    assert ope.importance_sampling(episodes(), 1.0).interval != first.interval
    np.random.seed(0)
    assert ope.importance_sampling(episodes(), 1.0) == first


def test_the_standard_error_of_a_plain_mean_is_the_usual_one() -> None:
    logged = episodes()
    error = ope.importance_sampling(logged, 1.0).standard_error
    assert error == pytest.approx(logged.reward.std(ddof=1) / np.sqrt(50))


def test_few_effective_episodes_are_warned_of() -> None:
    assert ope.importance_sampling(episodes(ratio=1.0), 1.0).warning == ""
    with pytest.warns(ope.UnreliableEstimateWarning, match="is 4 of 4, expected at least 30"):
        found = ope.importance_sampling(episodes(4), 1.0)
    assert "closer to the behaviour policy" in found.warning and str(found).endswith(f"({found.warning})")
    never = ope.LoggedEpisodes.from_columns([1.0, 1.0], [-np.inf, -np.inf], [-1.0, -1.0], [1, 1])
    with pytest.warns(ope.UnreliableEstimateWarning, match="an action that the evaluated policy never selects"):
        found = ope.weighted_importance_sampling(never, 1.0)
    assert found.effective_sample_size == 0.0
    assert np.isnan([found.value, *found.interval, found.standard_error]).all()
    with pytest.warns(ope.UnreliableEstimateWarning, match="an action that the evaluated policy never selects"):
        assert ope.importance_sampling(never, 1.0).value == 0.0


def test_weights_too_large_for_a_float_give_no_interval_and_one_warning_with_the_reason() -> None:
    rng, n = np.random.default_rng(0), 20
    columns: Any = {"q": np.ones(n * 9), "v": np.ones(n * 9)}
    logged = ope.LoggedEpisodes.from_columns(
        np.ones(n * 9), rng.normal(60, 100, n * 9), np.zeros(n * 9), [9] * n, **columns
    )
    for estimator in (ope.importance_sampling, ope.per_decision_importance_sampling, *WITH_MODEL.values()):
        with pytest.warns(ope.UnreliableEstimateWarning, match=r"weights up to exp\(1\d\d\d\) make unweighted") as told:
            found = estimator(logged, 0.99)
        assert len(told) == 1 and np.isnan(found.interval).all() == (not weighted(estimator))
        assert np.isfinite(found.value) == weighted(estimator)


def weighted(estimator: Any) -> bool:
    return estimator in (ope.weighted_doubly_robust, ope.magic)


WITH_MODEL = {
    "doubly robust": ope.doubly_robust,
    "weighted doubly robust": ope.weighted_doubly_robust,
    "MAGIC": ope.magic,
}


@pytest.mark.parametrize("name", WITH_MODEL)
def test_a_warning_names_the_estimator_and_comes_from_the_line_that_asked(name: str) -> None:
    with pytest.warns(ope.UnreliableEstimateWarning) as told:
        found = WITH_MODEL[name](episodes(4, q=np.zeros(4), v=np.zeros(4)), 1.0)
    assert [str(each.message).partition(":")[0] for each in told] == [found.estimator] == [name]
    assert told[0].filename == __file__


def test_weights_whose_largest_are_missing_are_warned_of() -> None:
    spread = 1.5 * np.sort(np.random.default_rng(0).normal(size=200))[:190]  # of logarithms, and the top is not there
    logged = ope.LoggedEpisodes.from_columns(np.ones(190), spread - 2, np.full(190, -2.0), [1] * 190)
    assert logged.effective_sample_size > 60 and 10 < logged.lognormal_sample_size < 30
    with pytest.warns(ope.UnreliableEstimateWarning, match=r"is [0-9.]+ of 190 according to the spread ") as told:
        ope.importance_sampling(logged, 1.0)
    assert told[0].message.effective_sample_size == logged.lognormal_sample_size  # type: ignore[union-attr]


def test_weights_that_are_there_but_leave_next_to_nothing_are_told_of_as_such() -> None:
    spread = np.linspace(-15, 15, 40)
    logged = ope.LoggedEpisodes.from_columns(np.ones(40), spread, np.zeros(40), [1] * 40)
    assert logged.effective_sample_size > 1 and logged.lognormal_sample_size < 1e-9
    with pytest.warns(ope.UnreliableEstimateWarning, match="less than 0.01 of 40 according to the spread"):
        ope.importance_sampling(logged, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": [2, 2]}, r"target_log_prob: got shape \(3,\), expected \(4,\)"),
        ({"lengths": [3, 0]}, "at least 1"),
        ({"reward": [1, np.nan, 1]}, "reward: got nan in row 1"),
        ({"behavior_log_prob": [0, 0, -np.inf]}, "behavior_log_prob: got -inf in row 2"),
        ({"target_log_prob": [0, np.inf, 0]}, "target_log_prob: got inf in row 1"),
        ({"q": [1, 1, 1]}, "expected q and v together"),
        ({"last_v": [1, 1]}, "expected q and v together"),
        ({"truncated": [True]}, r"truncated: got shape \(1,\)"),
    ],
)
def test_columns_that_cannot_be_right_are_refused(change: dict[str, Any], message: str) -> None:
    given = {
        "reward": [1, 1, 1], "target_log_prob": [0, 0, 0], "behavior_log_prob": [0, 0, 0], "lengths": [2, 1],
    }  # fmt: skip
    with pytest.raises(ValueError, match=message):
        ope.LoggedEpisodes.from_columns(**{**given, **change})


MODEL = {"q": np.zeros(50), "v": np.zeros(50), "last_v": np.zeros(50)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ope.Bootstrap(kind="normal"), ValueError, "kind"),
        (lambda: ope.Bootstrap(confidence=1.0), ValueError, "confidence"),
        (lambda: ope.Bootstrap(confidence=0.0), ValueError, "confidence"),
        (lambda: ope.Bootstrap(confidence="0.9"), TypeError, r"confidence is '0\.9' \(str\), expected a number"),
        (lambda: ope.Bootstrap(n_resamples=0), ValueError, "n_resamples"),
        (lambda: ope.importance_sampling(episodes(), 1.1), ValueError, "gamma is 1.1, expected a number from 0 to 1"),
        (lambda: ope.direct_method(episodes(**MODEL), 0.9), TypeError, r"interval is 0\.9 \(float\), expected a B"),
        (lambda: ope.doubly_robust(episodes(), 0.9), ValueError, "pass q and v"),
        (lambda: ope.weighted_doubly_robust(episodes(), 0.9), ValueError, "pass q and v"),
        (lambda: ope.magic(episodes(), 0.9), ValueError, "pass q and v"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_a_model_alone_has_the_spread_of_start_states_and_no_interval() -> None:
    values = np.linspace(90.0, 91.0, 50)  # start states hardly differ, wherever the truth is
    model = {"q": values, "v": values, "last_v": np.zeros(50)}
    with pytest.warns(ope.UnreliableEstimateWarning, match="coverage is unknown") as told:
        found = ope.direct_method(episodes(**model))
        ope.direct_method(episodes(**model))
    assert len(told) == 1 and told[0].filename == __file__
    assert np.isnan([*found.interval, found.standard_error]).all()
    low, high = found.start_state_interval or (0.0, 0.0)
    assert 90.3 < low < found.value < high < 90.7
    assert str(found).startswith("direct method: 90.5 spread of start states [90.4") and "is unknown" in str(found)
    assert ope.doubly_robust(episodes(**model), 1.0).start_state_interval is None
