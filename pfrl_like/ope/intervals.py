"""Bootstrap intervals over episodes (Efron and Tibshirani 1993, doi:10.1201/9780429246593)."""

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from pfrl_like.ope.episodes import Array
from pfrl_like.utils.random import RandomSource

#: Gives of resamples, [B, E] counts, the values, [B], and the influence of each episode, [B, E].
Statistic = Callable[[Array], tuple[Array, Array]]
#: The kinds of intervals.
KINDS = ("percentile", "bca", "studentized")
#: Parts of a right angle, for quantiles of Student's t.
_ANGLES = 20_000
#: Numbers held at once.
_AT_ONCE = 2_000_000


def standard_error(counts: Array, influence: Array) -> Array:
    """Standard errors of values by their influence functions, [B]."""
    size = counts.sum(1)
    spread = (counts * influence**2).sum(1)
    return np.asarray(np.sqrt(spread / (size * np.maximum(size - 1.0, 1.0))))


def bootstrap(statistic: Statistic, n_episodes: int, n_resamples: int, width: int, rng: RandomSource) -> Array:
    """Values and standard errors of resamples of episodes, drawn with replacement, [2, n_resamples].

    Args:
        statistic: What is computed.
        n_episodes: How many there are.
        n_resamples: How often they are drawn.
        width: Numbers that the statistic holds for each resample.
        rng: Source of randomness; None is the global NumPy stream.
    """
    found = [
        np.stack([values, standard_error(counts, influence)])
        for counts in _draws(n_episodes, n_resamples, width, rng)
        for values, influence in [statistic(counts)]
    ]
    return np.concatenate(found, axis=1)


def interval(
    kind: str, confidence: float, value: float, error: float, influence: Array, resamples: Array
) -> tuple[float, float]:
    """An interval of a value from its resamples.

    Args:
        kind: "percentile", the quantiles of the resamples' values; "bca", other quantiles of them, corrected for bias
            and skewness; "studentized", quantiles of the resamples' distances in units of their own standard errors,
            made larger as the quantiles of Student's t are for the degrees of freedom of the error.
        confidence: How often it should hold the truth.
        value: The value.
        error: Its standard error.
        influence: How much each episode moves it, [E].
        resamples: What `bootstrap` gives.
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
    """Degrees of freedom of a standard error, by its influence function [E]: (sum x**2)**2 / sum x**4 - 1, at least 1.

    Each episode gives the variance one degree, in proportion to the square of its influence (Satterthwaite 1946,
    doi:10.2307/3002019); one goes to the mean. Where few episodes of large weight make up the error, it is
    little more certain than they are, however many others there are.
    """
    squares = np.square(influence / max(np.abs(influence).max(), 1e-300))
    worth = squares.sum() ** 2 / max(np.square(squares).sum(), 1e-300)
    return float(max(worth - 1.0, 1.0))


def student_quantile(level: float, freedom: float) -> float:
    """A quantile of Student's t, for levels from 1/2 on.

    With t = sqrt(freedom) tan(u) the density of u is proportional to cos(u)**(freedom - 1), which is summed up.
    """
    angle = np.linspace(0.0, np.pi / 2, _ANGLES + 1)
    below = np.append(0.0, np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1)))
    return float(np.sqrt(freedom) * np.tan(np.interp((2 * level - 1) * below[-1], below, angle)))


def _corrected(tails: Array, value: float, influence: Array, values: Array) -> Array:
    """The quantiles of a BCa interval (Efron 1987, doi:10.1080/01621459.1987.10478410, eq. 2.3)."""
    normal = NormalDist()
    below = ((values < value).mean() + (values <= value).mean()) / 2
    bias = normal.inv_cdf(float(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values))))
    cubes, squares = (influence**3).sum(), (influence**2).sum()
    acceleration = float(cubes / (6 * squares**1.5)) if squares > 0 else 0.0
    shifted = [bias + normal.inv_cdf(float(tail)) for tail in tails]
    return np.array([normal.cdf(bias + each / max(1 - acceleration * each, 1e-6)) for each in shifted])


def _draws(n_episodes: int, n_resamples: int, width: int, rng: RandomSource) -> Iterator[Array]:
    source: Any = np.random if rng is None else rng
    at_once = max(1, _AT_ONCE // width)
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        yield source.multinomial(n_episodes, np.full(n_episodes, 1 / n_episodes), size=size).astype(np.float64)
