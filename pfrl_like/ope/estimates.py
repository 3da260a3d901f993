"""Estimates of the return of a policy, with confidence intervals from a bootstrap over episodes."""

import dataclasses
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from pfrl_like.ope.episodes import Array, LoggedEpisodes
from pfrl_like.utils.checks import check_choice, check_counts, check_numbers
from pfrl_like.utils.random import RandomSource, check_rng

#: Function of B resamples. Its argument is the number of copies of each episode in each resample, [B, E]. It returns
#: the values, [B], and the influence of each episode on the values, [B, E].
Statistic = Callable[[Array], tuple[Array, Array]]
#: Types of confidence intervals.
KINDS = ("percentile", "bca", "studentized")
#: If the effective number of episodes is below this number, estimators with importance weights issue a warning.
FEW_EPISODES = 30.0
#: Logarithm of a weight. For larger weights, the product of weight and return may exceed the range of a float.
_MAX_LOG_WEIGHT = 700.0
#: Number of intervals of [0, pi/2] for the numerical integration in `student_quantile`.
_N_INTERVALS = 20_000
#: Maximum number of floats in memory at once.
_MAX_FLOATS = 2_000_000


def standard_error(counts: Array, influence: Array) -> Array:
    """Return the standard errors of values, [B].

    Args:
        counts: Number of copies of each episode in each of B resamples, [B, E].
        influence: Influence of each episode on the values, [B, E].
    """
    size = counts.sum(1)
    spread = (counts * influence**2).sum(1)
    return np.asarray(np.sqrt(spread / (size * np.maximum(size - 1.0, 1.0))))


def bootstrap(statistic: Statistic, n_episodes: int, n_resamples: int, width: int, rng: RandomSource) -> Array:
    """Return values and standard errors of resamples of episodes, sampled with replacement, [2, n_resamples].

    Args:
        statistic: Function of resamples that returns values and influences.
        n_episodes: Number of episodes.
        n_resamples: Number of resamples.
        width: Number of floats that the statistic keeps in memory for each resample.
        rng: Source of randomness. If None, the global NumPy stream is used.
    """
    source: Any = np.random if rng is None else rng
    at_once = max(1, _MAX_FLOATS // width)
    results = []
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = source.multinomial(n_episodes, np.full(n_episodes, 1 / n_episodes), size=size).astype(np.float64)
        values, influence = statistic(counts)
        results.append(np.stack([values, standard_error(counts, influence)]))
    return np.concatenate(results, axis=1)


def interval(
    kind: str, confidence: float, value: float, error: float, influence: Array, resamples: Array
) -> tuple[float, float]:
    """Return a confidence interval of a value, computed from resamples.

    Args:
        kind: "percentile" uses quantiles of the resampled values. "bca" uses quantiles of the resampled values,
            corrected for bias and skewness. "studentized" uses quantiles of (resampled value - value) / (standard error
            of the resample). The width of this interval is also multiplied by (quantile of Student's t) / (quantile of
            the normal distribution), where Student's t has the degrees of freedom of `error`.
        confidence: Nominal probability that the interval contains the true value, in (0, 1).
        value: The value.
        error: Standard error of the value.
        influence: Influence of each episode on the value, [E].
        resamples: Values and standard errors of resamples, as returned by `bootstrap`, [2, n_resamples].
    """
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    values, errors = resamples
    if kind == "studentized":
        usable = errors > 1e-9 * error
        if error > 0 and usable.any():
            distance = (values[usable] - value) / errors[usable]
            wider = student_quantile(tails[1], error_freedom(influence)) / NormalDist().inv_cdf(tails[1])
            low, high = value - error * wider * np.quantile(distance, tails[::-1])
            return float(low), float(high)
    elif kind == "bca":
        tails = _bca_levels(tails, value, influence, values)
    low, high = np.quantile(values, tails)
    return float(low), float(high)


def error_freedom(influence: Array) -> float:
    """Return the degrees of freedom of a standard error: (sum x**2)**2 / sum x**4 - 1, at least 1; x is `influence`.

    This is the approximation of Satterthwaite (1946, doi:10.2307/3002019), minus one degree of freedom for the mean. If
    a few episodes with large weights cause most of the error, the result is small, even for many episodes.
    """
    squares = np.square(influence / max(np.abs(influence).max(), 1e-300))
    count = squares.sum() ** 2 / max(np.square(squares).sum(), 1e-300)
    return float(max(count - 1.0, 1.0))


def student_quantile(level: float, freedom: float) -> float:
    """Return a quantile of Student's t, for levels of at least 1/2.

    With t = sqrt(freedom) tan(u), the density of u is proportional to cos(u)**(freedom - 1). The function integrates
    this density numerically.
    """
    angle = np.linspace(0.0, np.pi / 2, _N_INTERVALS + 1)
    below = np.append(0.0, np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1)))
    return float(np.sqrt(freedom) * np.tan(np.interp((2 * level - 1) * below[-1], below, angle)))


def _bca_levels(tails: Array, value: float, influence: Array, values: Array) -> Array:
    """Return the quantile levels of a BCa interval (Efron 1987, doi:10.1080/01621459.1987.10478410, eq. 2.3)."""
    normal = NormalDist()
    below = ((values < value).mean() + (values <= value).mean()) / 2
    bias = normal.inv_cdf(float(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values))))
    cubes, squares = (influence**3).sum(), (influence**2).sum()
    acceleration = float(cubes / (6 * squares**1.5)) if squares > 0 else 0.0
    shifted = [bias + normal.inv_cdf(float(tail)) for tail in tails]
    return np.array([normal.cdf(bias + each / max(1 - acceleration * each, 1e-6)) for each in shifted])


class UnreliableEstimateWarning(UserWarning):
    """Warning that an estimate is based on too little data for a reliable interval.

    Args:
        message: The reason.
        effective_sample_size: Effective number of episodes of the evaluated policy.
    """

    def __init__(self, message: str, effective_sample_size: float = float("nan")) -> None:
        super().__init__(message)
        self.effective_sample_size = effective_sample_size


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """Settings of confidence intervals from a bootstrap over episodes.

    Args:
        kind: "percentile", "bca" or "studentized".
        confidence: Nominal probability that the interval contains the true value, in (0, 1).
        n_resamples: Number of resamples.
        rng: Source of randomness. If None, the global NumPy stream is used.

    Raises:
        ValueError: If an argument is outside the range documented above.
        TypeError: If `confidence` is not a number, `n_resamples` is not an integer, or `rng` is not a generator.
    """

    kind: str = "studentized"
    confidence: float = 0.95
    n_resamples: int = 1000
    rng: RandomSource = None

    def __post_init__(self) -> None:
        check_counts(n_resamples=self.n_resamples)
        check_rng(self.rng)
        check_choice("kind", self.kind, KINDS)
        check_numbers(0, 1, between=True, confidence=self.confidence)


def settings_of(interval: Bootstrap | None) -> Bootstrap:
    """Return `interval`, or a `Bootstrap` with default settings if `interval` is None.

    Raises:
        TypeError: If `interval` is neither a `Bootstrap` nor None.
    """
    if interval is not None and not isinstance(interval, Bootstrap):
        raise TypeError(f"interval is {interval!r:.80} ({type(interval).__name__}), expected a Bootstrap, or None")
    return Bootstrap() if interval is None else interval


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Estimate of the return of a policy.

    Attributes:
        estimator: Name of the estimator.
        value: The discounted return.
        interval: Bootstrap interval of the value, (low, high). NaN if the value is computed only from a model.
        confidence: Nominal probability that the interval contains the true value, in (0, 1).
        kind: Type of the interval: "percentile", "bca" or "studentized".
        standard_error: Standard error from the delta method. NaN if the value is computed only from a model.
        effective_sample_size: Effective number of episodes of the evaluated policy. NaN without importance weights.
        n_episodes: Number of episodes.
        n_truncated: Number of truncated episodes. The estimate contains rewards after a truncation only if a model
            predicts them.
        warning: Reason why the estimate is unreliable. Empty if no reason is known.
        start_state_interval: None, except if the value is computed only from a model. Then it is the bootstrap
            interval, (low, high), of the mean value of start states. It includes the spread of start states, but not
            the error of the model.
    """

    estimator: str
    value: float
    interval: tuple[float, float]
    confidence: float
    kind: str
    standard_error: float
    effective_sample_size: float
    n_episodes: int
    n_truncated: int
    warning: str = ""
    start_state_interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        name, (low, high) = "", self.interval
        if self.start_state_interval is not None:
            name, (low, high) = "spread of start states ", self.start_state_interval
        text = f"{self.estimator}: {self.value:.6g} {name}[{low:.6g}, {high:.6g}]"
        return f"{text} ({self.warning})" if self.warning else text


def reliability(episodes: LoggedEpisodes) -> tuple[str, float]:
    """Return the reason why importance weights are unreliable, or "", and the effective number of episodes."""
    kish, lognormal = episodes.effective_sample_size, episodes.lognormal_sample_size
    size, largest = min(kish, lognormal), float(episodes.log_weight.max())
    if size >= FEW_EPISODES and largest < _MAX_LOG_WEIGHT:
        return "", size
    text = f"{size:.3g}" if size == 0 or size >= 0.01 else "less than 0.01"
    reason = f"the effective number of episodes is {text} of {len(episodes)}"
    if kish == 0:
        return f"{reason}, because every episode contains an action that the evaluated policy never selects", size
    if lognormal < kish:
        reason += f" according to the spread of the log-weights ({kish:.3g} according to the weights)"
    if largest >= _MAX_LOG_WEIGHT:
        reason += f", and weights up to exp({largest:.0f}) make unweighted estimates infinite"
    advice = "record more or shorter episodes, or evaluate a policy that is closer to the behaviour policy"
    return f"{reason}, expected at least {FEW_EPISODES:.0f}: {advice}", size
