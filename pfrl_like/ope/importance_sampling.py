"""Estimators of returns: importance sampling (Precup et al. 2000), the direct method, doubly robust ones and MAGIC.

The weight of a step is the product of the ratios pi_e(a|s) / pi_b(a|s) from the beginning of the episode.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.ope import estimates
from pfrl_like.ope.episodes import Array, LoggedEpisodes, scaled_weights
from pfrl_like.ope.estimates import Bootstrap, Estimate
from pfrl_like.utils.checks import check_numbers, levels_to_the_caller, warn_once


@dataclasses.dataclass(frozen=True, eq=False)
class SelfNormalized:
    """Weighted averages `sum_i w_ik x_ik / sum_i w_ik` and their sums, of which all estimators consist.

    An average without any weight is 0.

    Attributes:
        weight: Weights w, at least 0, [E, K].
        value: Values x, [E, K].
        parts: Factors of the K averages in each of J sums, [J, K].
    """

    weight: Array
    value: Array
    parts: Array

    @classmethod
    def mean(cls, value: Array) -> Self:
        """The plain mean of one number for each episode, [E]."""
        return cls(np.ones((len(value), 1)), value[:, None], np.ones((1, 1)))

    @classmethod
    def total(cls, weight: Array, value: Array) -> Self:
        """The sum of all averages."""
        return cls(weight, value, np.ones((1, weight.shape[1])))

    @property
    def width(self) -> int:
        """Number of floats needed for each resample."""
        return len(self.parts) * sum(self.weight.shape)

    def __call__(self, counts: Array) -> tuple[Array, Array]:
        """The sums of averages for resamples, and their influence functions.

        Args:
            counts: Number of copies of each episode in each of B resamples, [B, E].

        Returns:
            The sums, [B, J], and the influence of each episode on them, [B, E, J]. To first order one more copy of an
            episode changes a sum by the influence divided by the size of the resample.
        """
        sums = counts @ self.weight
        share = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        weighted = self.weight * self.value
        average = (counts @ weighted) * share
        numbers = average @ self.parts.T
        size = counts.sum(1)[:, None, None]
        factors = self.parts[None] * share[:, None] * size  # [B, J, K]
        influence = weighted @ factors.swapaxes(1, 2) - self.weight @ (factors * average[:, None]).swapaxes(1, 2)
        return numbers, influence


def covariance(counts: Array, influence: Array) -> Array:
    """Covariances, [B, J, J], of J numbers from their influence functions, [B, E, J] (the delta method)."""
    size = counts.sum(1)[:, None, None]
    spread = (counts[:, :, None] * influence).swapaxes(1, 2) @ influence
    return np.asarray(spread / (size * np.maximum(size - 1.0, 1.0)))


def importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Mean of each episode's return times its last weight: unbiased, with a large variance.

    Args:
        episodes: Recorded episodes with probabilities.
        gamma: Discount factor per step.
        interval: Settings of intervals; None for a `Bootstrap` with its defaults.

    Returns:
        The estimate.

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If it is no number, or `interval` no `Bootstrap`.
    """
    returns = (discounts(episodes, gamma) * episodes.reward).sum(1)
    weight, scale = plain_weights(episodes)
    mean = SelfNormalized.mean(weight[:, -1] * returns)
    return estimated("importance sampling", episodes, mean, interval, scale)


def weighted_importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Average of the returns with the last weights: consistent, biased towards the behaviour policy for few episodes.

    It is NaN if no episode has a weight above 0. Arguments, result and errors are those of `importance_sampling`.
    """
    returns = (discounts(episodes, gamma) * episodes.reward).sum(1, keepdims=True)
    weight, _ = scaled_weights(episodes.log_weight[:, -1:])
    average = SelfNormalized.total(weight, returns)
    found = estimated("weighted importance sampling", episodes, average, interval)
    unknown = float("nan")
    if found.effective_sample_size == 0:
        return dataclasses.replace(found, value=unknown, interval=(unknown, unknown), standard_error=unknown)
    return found


def per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Mean over episodes of the discounted sum of rewards, each times the weight of its own step: unbiased.

    Arguments, result and errors are those of `importance_sampling`.
    """
    weight, scale = plain_weights(episodes)
    mean = SelfNormalized.mean((weight * discounts(episodes, gamma) * episodes.reward).sum(1))
    return estimated("per-decision importance sampling", episodes, mean, interval, scale)


def weighted_per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Discounted sum over steps of the average reward of the step, with the weights of the step: consistent.

    This is the consistent form (Thomas 2015, "Safe reinforcement learning", 3.10), in which an episode continues after
    its end with its last weight and rewards of 0. Arguments, result and errors are those of `importance_sampling`.
    """
    weight, _ = scaled_weights(episodes.log_weight)
    averages = SelfNormalized.total(weight, discounts(episodes, gamma) * episodes.reward)
    return estimated("weighted per-decision importance sampling", episodes, averages, interval)


def discounts(episodes: LoggedEpisodes, gamma: float) -> Array:
    """gamma**t of each step, [T].

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If it is no number.
    """
    check_numbers(0, 1, gamma=gamma)
    return np.asarray(float(gamma) ** np.arange(episodes.reward.shape[1]))


def plain_weights(episodes: LoggedEpisodes) -> tuple[Array, float]:
    """Weights of all steps, [E, T], divided by the largest one if it is above 1, and the logarithm of the divisor."""
    scale = max(0.0, float(episodes.log_weight.max()))
    return np.exp(episodes.log_weight - scale), scale


def estimated(
    estimator: str,
    episodes: LoggedEpisodes,
    numbers: SelfNormalized,
    settings: Bootstrap | None,
    log_scale: float = 0.0,
    weighted: bool = True,
) -> Estimate:
    """The estimate given by a sum of weighted averages, with its interval.

    Args:
        estimator: Name of the estimator.
        episodes: The episodes.
        numbers: The averages and their sum.
        settings: Settings of intervals; None for a `Bootstrap` with its defaults.
        log_scale: Logarithm of the number by which the values were divided.
        weighted: Whether the estimate has importance weights.

    Returns:
        The estimate; its value, interval and standard error are NaN if the value is too large for a float.
    """

    def statistic(counts: Array) -> tuple[Array, Array]:
        values, influence = numbers(counts)
        return values[:, 0], influence[:, :, 0]

    settings, once = estimates.settings_of(settings), np.ones((1, len(episodes)))
    with np.errstate(over="ignore", invalid="ignore"):
        values, influence = statistic(once)
        value, error = float(values[0]), float(estimates.standard_error(once, influence)[0])
        resamples = estimates.bootstrap(statistic, len(episodes), settings.n_resamples, numbers.width, settings.rng)
        bounds = estimates.interval(settings.kind, settings.confidence, value, error, influence[0], resamples)
        scale = float(np.exp(log_scale))
    size = episodes.effective_sample_size if weighted else float("nan")
    warning, left = estimates.weakness(episodes) if weighted else ("", size)
    if warning:
        warnings.warn(
            estimates.UnreliableEstimateWarning(f"{estimator}: {warning}", left), stacklevel=levels_to_the_caller()
        )
    found = [0.0 if number == 0 else float(number) * scale for number in (value, error, *bounds)]
    value, error, low, high = found if np.isfinite(found[0]) else [float("nan")] * 4
    return Estimate(
        estimator, value, (low, high), settings.confidence, settings.kind, error, size, len(episodes),
        int(episodes.truncated.sum()), warning,
    )  # fmt: skip


def least_square_on_simplex(matrix: Array) -> Array:
    """The vector x >= 0, [J], that sums to 1 and minimises x' A x, for A positive semi-definite, [J, J].

    Scaled to A z = 1 wherever z > 0 it is a non-negative least squares problem, which is solved by exchanging elements
    of the active set (Lawson and Hanson 1974, "Solving least squares problems", chapter 23).
    """
    size = len(matrix)
    scale = np.trace(matrix) / size
    if not scale > 0:
        return np.full(size, 1 / size)
    a = matrix / scale + 1e-10 * np.eye(size)
    z, active = np.zeros(size), np.zeros(size, np.bool_)
    for _ in range(10 * size):
        slope = np.where(active, -np.inf, 1.0 - a @ z)
        best = int(slope.argmax())
        if slope[best] <= 1e-9:
            break
        active[best] = True
        while (wanted := _solved(a, active)).min() <= 0 < active.sum():
            _move(z, wanted, active)
        z[:] = 0.0
        z[active] = wanted
    return np.asarray(z / z.sum())


def _solved(a: Array, active: NDArray[np.bool_]) -> Array:
    return np.asarray(np.linalg.solve(a[np.ix_(active, active)], np.ones(int(active.sum()))), np.float64)


def _move(z: Array, wanted: Array, active: NDArray[np.bool_]) -> None:
    """Move z towards the wanted numbers until the first element is 0; that element becomes inactive."""
    at = np.flatnonzero(active)
    falling = wanted <= 0
    reach = z[at] / np.where(falling, z[at] - wanted, 1.0)
    share = reach[falling].min()
    z[at] += share * (wanted - z[at])
    left = at[falling & (reach <= share)]
    z[left], active[left] = 0.0, False


#: Largest number of lengths among which MAGIC chooses.
_LENGTHS = 20
#: Warning about values that come from a model alone.
_NOT_JUDGED = "coverage was not judged: the model may be wrong by far more than start states differ"
#: Confidence of the interval from which MAGIC estimates the bias of a length (arXiv:1604.00923, 7.2).
_OF_BIAS = 0.9


def direct_method(episodes: LoggedEpisodes, interval: Bootstrap | None = None) -> Estimate:
    """Mean of the model's V(s_0).

    The error of the model is unknown: the estimate has a `start_state_interval` and no `interval`, and an
    `UnreliableEstimateWarning` says so, once a process.

    Args:
        episodes: Recorded episodes with the model's values; probabilities are not used.
        interval: Settings of the interval of start states; None for a `Bootstrap` with its defaults.

    Returns:
        The estimate.

    Raises:
        ValueError: If the episodes lack the model's values.
        TypeError: If `interval` is no `Bootstrap`.
    """
    _, v = episodes.model()
    found = estimated("direct method", episodes, SelfNormalized.mean(v[:, 0]), interval, weighted=False)
    warn_once(
        "coverage of the direct method",
        f"fqe, the direct method: {_NOT_JUDGED}. Its start_state_interval is the spread of start states alone, and no "
        "interval of the return: compare other estimates, or play episodes",
        estimates.UnreliableEstimateWarning,
    )
    unknown = float("nan")
    return dataclasses.replace(
        found, interval=(unknown, unknown), standard_error=unknown, start_state_interval=found.interval,
        warning=_NOT_JUDGED,
    )  # fmt: skip


def doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Mean of V(s_0) + sum_t gamma**t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) (arXiv:1511.03722, eq. 10).

    It is unbiased for any model, and has a small variance if the model is accurate.

    Args:
        episodes: Recorded episodes with probabilities and the model's values.
        gamma: Discount factor per step.
        interval: Settings of intervals; None for a `Bootstrap` with its defaults.

    Returns:
        The estimate.

    Raises:
        ValueError: If the episodes lack the model's values, or `gamma` is not in [0, 1].
        TypeError: If `gamma` is no number, or `interval` no `Bootstrap`.
    """
    q, v = episodes.model()
    factor = discounts(episodes, gamma)
    weight, scale = plain_weights(episodes)
    wrong = episodes.reward + gamma * v[:, 1:] - q
    mean = SelfNormalized.mean(v[:, 0] * np.exp(-scale) + (factor * weight * wrong).sum(1))
    return estimated("doubly robust", episodes, mean, interval, scale)


def weighted_doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """`doubly_robust` with weighted averages for each step (arXiv:1604.00923, section 5): consistent, less variance.

    Arguments, result and errors are those of `doubly_robust`.
    """
    weight, value = _weighted_columns(episodes, gamma)
    return estimated("weighted doubly robust", episodes, SelfNormalized.total(weight, value), interval)


def magic(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Model and guided importance sampling combined (arXiv:1604.00923, section 7).

    Estimates that use the weights for the first steps, and the model after them, are mixed so that the sum of variance
    and squared bias is smallest. Both are estimated by the delta method. Interval and standard error are those of
    `weighted_doubly_robust`; the interval is widened if it does not contain the value, since the data do not tell the
    bias of a mixture more precisely. Arguments, result and errors are those of `doubly_robust`.
    """
    weight, value = _weighted_columns(episodes, gamma)
    once = np.ones((1, len(episodes)))
    with np.errstate(over="ignore", invalid="ignore"):
        found, influence = SelfNormalized(weight, value, _parts(episodes.reward.shape[1]))(once)
        mixed = float(_mixture(once, found, influence) @ found[0])
    whole = estimated("MAGIC", episodes, SelfNormalized.total(weight, value), interval)
    low, high = whole.interval
    return dataclasses.replace(whole, value=mixed, interval=(min(low, mixed), max(high, mixed)))


def _weighted_columns(episodes: LoggedEpisodes, gamma: float) -> tuple[Array, Array]:
    """Weights and values, [E, 2 T + 1] each: V of the states 0 to T, then r - Q of the steps, all discounted."""
    q, v = episodes.model()
    factor = discounts(episodes, gamma)
    weight, _ = scaled_weights(episodes.log_weight)
    of_states = np.concatenate([np.ones((len(episodes), 1)), weight], axis=1)
    values = [np.append(factor, factor[-1] * gamma) * v, factor * (episodes.reward - q)]
    return np.concatenate([of_states, weight], axis=1), np.concatenate(values, axis=1)


def _parts(n_steps: int) -> Array:
    """Factors, 0 or 1, of the columns in the estimates that use the weights for 0, ..., T steps, [J, 2 T + 1]."""
    every = np.arange(n_steps + 1)
    some = np.unique(np.round(np.geomspace(1, n_steps + 1, _LENGTHS))) - 1
    lengths, step = (every if len(every) <= _LENGTHS else some)[:, None], every[:-1]
    return np.concatenate([every <= lengths, step < lengths], axis=1).astype(np.float64)


def _mixture(once: Array, found: Array, influence: Array) -> Array:
    """Shares of the estimates in the mixture, [J], from their variances and their distances from the longest one."""
    reach = NormalDist().inv_cdf((1 + _OF_BIAS) / 2) * estimates.standard_error(once, influence[:, :, -1])
    away = found[0] - found[0, -1]
    bias = np.sign(away) * np.maximum(np.abs(away) - reach, 0.0)
    return least_square_on_simplex(covariance(once, influence)[0] + np.outer(bias, bias))


#: The estimators that need probabilities, by name.
BY_WEIGHTS: Mapping[str, Callable[..., Estimate]] = {
    "is": importance_sampling, "wis": weighted_importance_sampling,
    "pdis": per_decision_importance_sampling, "wpdis": weighted_per_decision_importance_sampling,
    "dr": doubly_robust, "wdr": weighted_doubly_robust, "magic": magic,
}  # fmt: skip
