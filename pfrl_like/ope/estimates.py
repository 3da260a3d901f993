"""Estimates of the return of a policy, with confidence intervals from a bootstrap over episodes."""

import dataclasses
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from pfrl_like.ope.episodes import Array, LoggedEpisodes
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.random import RandomSource, check_rng

#: Function of resamples (counts, [B, E]) that returns the values, [B], and the influence of each episode, [B, E].
Statistic = Callable[[Array], tuple[Array, Array]]
#: The kinds of intervals.
KINDS = ("percentile", "bca", "studentized")
#: Effective number of episodes below which an estimate with importance weights issues a warning.
FEW_EPISODES = 30.0
#: Logarithm of weights that are too large for a float once they are multiplied by returns.
_TOO_LARGE = 700.0
#: Number of intervals of [0, pi/2] in the numerical integration for quantiles of Student's t.
_ANGLES = 20_000
#: Maximum number of floats in memory at once.
_AT_ONCE = 2_000_000


def standard_error(counts: Array, influence: Array) -> Array:
    """Return the standard errors of values, [B], from their influence functions."""
    size = counts.sum(1)
    spread = (counts * influence**2).sum(1)
    return np.asarray(np.sqrt(spread / (size * np.maximum(size - 1.0, 1.0))))


def bootstrap(statistic: Statistic, n_episodes: int, n_resamples: int, width: int, rng: RandomSource) -> Array:
    """Return values and standard errors of resamples of episodes, sampled with replacement, [2, n_resamples].

    Args:
        statistic: Function of resamples that returns values and influences.
        n_episodes: Number of episodes.
        n_resamples: Number of resamples.
        width: Number of floats in memory that the statistic needs per resample.
        rng: Source of randomness; None is the global NumPy stream.
    """
    source: Any = np.random if rng is None else rng
    at_once = max(1, _AT_ONCE // width)
    found = []
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = source.multinomial(n_episodes, np.full(n_episodes, 1 / n_episodes), size=size).astype(np.float64)
        values, influence = statistic(counts)
        found.append(np.stack([values, standard_error(counts, influence)]))
    return np.concatenate(found, axis=1)


def interval(
    kind: str, confidence: float, value: float, error: float, influence: Array, resamples: Array
) -> tuple[float, float]:
    """Return a confidence interval of a value, computed from resamples.

    Args:
        kind: "percentile" uses quantiles of the resampled values. "bca" uses quantiles of the resampled values,
            corrected for bias and skewness. "studentized" uses quantiles of (resampled value - value) / (standard error
            of the resample). The studentized interval is widened by the ratio of a quantile of Student's t to the same
            quantile of the normal distribution, with the degrees of freedom of `error`.
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
        tails = _corrected(tails, value, influence, values)
    low, high = np.quantile(values, tails)
    return float(low), float(high)


def error_freedom(influence: Array) -> float:
    """Return the degrees of freedom of a standard error: (sum x**2)**2 / sum x**4 - 1, at least 1; x is `influence`.

    This is the approximation of Satterthwaite (1946, doi:10.2307/3002019). One degree of freedom is subtracted for the
    mean. If a few episodes with large weights cause most of the error, the number is small, even if there are many
    other episodes.
    """
    squares = np.square(influence / max(np.abs(influence).max(), 1e-300))
    worth = squares.sum() ** 2 / max(np.square(squares).sum(), 1e-300)
    return float(max(worth - 1.0, 1.0))


def student_quantile(level: float, freedom: float) -> float:
    """Return a quantile of Student's t, for levels of at least 1/2.

    With t = sqrt(freedom) tan(u), the density of u is proportional to cos(u)**(freedom - 1). This density is integrated
    numerically.
    """
    angle = np.linspace(0.0, np.pi / 2, _ANGLES + 1)
    below = np.append(0.0, np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1)))
    return float(np.sqrt(freedom) * np.tan(np.interp((2 * level - 1) * below[-1], below, angle)))


def _corrected(tails: Array, value: float, influence: Array, values: Array) -> Array:
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
        rng: Source of randomness; None is the global NumPy stream.

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
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")
        check_numbers(0, 1, between=True, confidence=self.confidence)


def settings_of(interval: Bootstrap | None) -> Bootstrap:
    """Return the settings of intervals; if `interval` is None, return a `Bootstrap` with its defaults.

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
        interval: Bootstrap interval of the value, (low, high); NaN if the value is computed only from a model.
        confidence: Nominal probability that the interval contains the true value, in (0, 1).
        kind: Kind of the interval: "percentile", "bca" or "studentized".
        standard_error: Standard error from the delta method; NaN if the value is computed only from a model.
        effective_sample_size: Effective number of episodes of the evaluated policy; NaN without importance weights.
        n_episodes: Number of episodes.
        n_truncated: Number of truncated episodes. The estimate contains rewards after the truncation only if a model
            predicts them.
        warning: Reason why the estimate is unreliable; an empty string if no reason is known.
        start_state_interval: Bootstrap interval, (low, high), of the model's mean value of start states, if the value
            is computed only from a model; otherwise None. It contains the spread of start states, but not the error of
            the model.
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


def weakness(episodes: LoggedEpisodes) -> tuple[str, float]:
    """Return why importance weights are unreliable (or an empty string), and the effective number of episodes."""
    found, expected = episodes.effective_sample_size, episodes.lognormal_sample_size
    left, largest = min(found, expected), float(episodes.log_weight.max())
    if left >= FEW_EPISODES and largest < _TOO_LARGE:
        return "", left
    few = f"{left:.3g}" if left == 0 or left >= 0.01 else "less than 0.01"
    worth = f"the weights leave {few} of {len(episodes)} episodes effective"
    if found == 0:
        return f"{worth}: in each of them the evaluated policy would have acted otherwise at some step", left
    if expected < found:
        worth += f", judged by the spread of the weights ({found:.3g} by the weights alone)"
    if largest >= _TOO_LARGE:
        worth += f"; weights up to exp({largest:.0f}) are too large for a float: unweighted estimates are not finite"
    way_out = "record more or shorter episodes, or evaluate a policy that is closer to the one that acted"
    return f"{worth}; an estimate needs at least {FEW_EPISODES:.0f}: {way_out}", left
