"""Estimators of returns: importance sampling (Precup et al. 2000), direct method, doubly robust estimators, MAGIC.

The weight of a step is the product of the ratios pi_e(a|s) / pi_b(a|s) from the first step of the episode to this step.
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
    """Weighted averages `sum_i w_ik x_ik / sum_i w_ik` and sums of these averages; every estimator is such a sum.

    If all weights of an average are 0, the average is 0.

    Attributes:
        weight: Weights w, at least 0, [E, K].
        value: Values x, [E, K].
        parts: Coefficients of the K averages in each of J sums, [J, K].
    """

    weight: Array
    value: Array
    parts: Array

    @classmethod
    def mean(cls, value: Array) -> Self:
        """Return the unweighted mean of one number per episode, [E]."""
        return cls(np.ones((len(value), 1)), value[:, None], np.ones((1, 1)))

    @classmethod
    def total(cls, weight: Array, value: Array) -> Self:
        """Return the sum of all averages."""
        return cls(weight, value, np.ones((1, weight.shape[1])))

    @property
    def width(self) -> int:
        """Number of floats in memory per resample."""
        return len(self.parts) * sum(self.weight.shape)

    def __call__(self, counts: Array) -> tuple[Array, Array]:
        """Return the sums of averages for resamples, and the influence functions of the sums.

        Args:
            counts: Number of copies of each episode in each of B resamples, [B, E].

        Returns:
            The sums, [B, J], and the influence of each episode on the sums, [B, E, J]. To first order, one more copy of
            an episode changes a sum by the influence divided by the size of the resample.
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
    """Return covariances, [B, J, J], of J numbers from their influence functions, [B, E, J] (delta method)."""
    size = counts.sum(1)[:, None, None]
    spread = (counts[:, :, None] * influence).swapaxes(1, 2) @ influence
    return np.asarray(spread / (size * np.maximum(size - 1.0, 1.0)))


def importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean of each episode's return times its last weight: unbiased, with a large variance.

    Args:
        episodes: Recorded episodes with probabilities.
        gamma: Discount factor per step.
        interval: Settings of the confidence interval. If None, the defaults of `Bootstrap` are used.

    Returns:
        The estimate.

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If `gamma` is not a number, or `interval` is not a `Bootstrap`.
    """
    returns = (discounts(episodes, gamma) * episodes.reward).sum(1)
    weight, scale = plain_weights(episodes)
    mean = SelfNormalized.mean(weight[:, -1] * returns)
    return estimated("importance sampling", episodes, mean, interval, scale)


def weighted_importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the weighted average of the returns, with the last weight of each episode.

    The estimate is consistent. With few episodes, it is biased towards the return of the behaviour policy. It is NaN if
    no episode has a weight above 0. Arguments, result and errors are the same as in `importance_sampling`.
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
    """Return the mean over episodes of the discounted sum of weighted rewards: unbiased.

    Each reward is multiplied by the weight of its step. Arguments, result and errors are the same as in
    `importance_sampling`.
    """
    weight, scale = plain_weights(episodes)
    mean = SelfNormalized.mean((weight * discounts(episodes, gamma) * episodes.reward).sum(1))
    return estimated("per-decision importance sampling", episodes, mean, interval, scale)


def weighted_per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Return the discounted sum over steps of the weighted average of the step's rewards: consistent.

    After the end of an episode, its last weight and rewards of 0 are used (Thomas 2015, "Safe reinforcement learning",
    3.10). Arguments, result and errors are the same as in `importance_sampling`.
    """
    weight, _ = scaled_weights(episodes.log_weight)
    averages = SelfNormalized.total(weight, discounts(episodes, gamma) * episodes.reward)
    return estimated("weighted per-decision importance sampling", episodes, averages, interval)


def discounts(episodes: LoggedEpisodes, gamma: float) -> Array:
    """Return gamma**t for each step, [T].

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If `gamma` is not a number.
    """
    check_numbers(0, 1, gamma=gamma)
    return np.asarray(float(gamma) ** np.arange(episodes.reward.shape[1]))


def plain_weights(episodes: LoggedEpisodes) -> tuple[Array, float]:
    """Return the weights of all steps, [E, T], divided by max(1, maximum weight), and the log of the divisor."""
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
    """Return the estimate, with its confidence interval, from a sum of weighted averages.

    Args:
        estimator: Name of the estimator.
        episodes: The episodes.
        numbers: The averages and their sum.
        settings: Settings of the confidence interval. If None, the defaults of `Bootstrap` are used.
        log_scale: Logarithm of the divisor of the values.
        weighted: True if the estimate uses importance weights.

    Returns:
        The estimate. If the value is too large for a float, it is infinite or NaN, and the interval and the standard
        error are NaN.
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
    value, error, low, high = found if np.isfinite(found[0]) else [found[0]] + [float("nan")] * 3
    return Estimate(
        estimator, value, (low, high), settings.confidence, settings.kind, error, size, len(episodes),
        int(episodes.truncated.sum()), warning,
    )  # fmt: skip


def least_square_on_simplex(matrix: Array) -> Array:
    """Return the vector x >= 0, [J], that sums to 1 and minimises x' A x, for A positive semi-definite, [J, J].

    The scaled problem, A z = 1 for all elements with z > 0, is a non-negative least squares problem. It is solved with
    an active-set method (Lawson and Hanson 1974, "Solving least squares problems", chapter 23).
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
    """Move z towards `wanted` until an element is 0; this element becomes inactive."""
    at = np.flatnonzero(active)
    falling = wanted <= 0
    reach = z[at] / np.where(falling, z[at] - wanted, 1.0)
    share = reach[falling].min()
    z[at] += share * (wanted - z[at])
    left = at[falling & (reach <= share)]
    z[left], active[left] = 0.0, False


#: Maximum number of lengths from which MAGIC chooses.
_LENGTHS = 20
#: Warning about values that are computed only from a model.
_NOT_JUDGED = "coverage is unknown: the error of the model may be far larger than the spread of start states"
#: Confidence of the interval from which MAGIC estimates the bias of a length (arXiv:1604.00923, 7.2).
_OF_BIAS = 0.9


def direct_method(episodes: LoggedEpisodes, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean of the model's V(s_0).

    The error of the model is unknown. The estimate therefore has a `start_state_interval`, and its `interval` is NaN.
    An `UnreliableEstimateWarning` is issued, once per process.

    Args:
        episodes: Recorded episodes with the model's values. Their probabilities are not used.
        interval: Settings of the interval of start states. If None, the defaults of `Bootstrap` are used.

    Returns:
        The estimate.

    Raises:
        ValueError: If the episodes lack the model's values.
        TypeError: If `interval` is not a `Bootstrap`.
    """
    _, v = episodes.model()
    found = estimated("direct method", episodes, SelfNormalized.mean(v[:, 0]), interval, weighted=False)
    warn_once(
        "coverage of the direct method",
        f"fqe, the direct method: {_NOT_JUDGED}. Its start_state_interval contains only the spread of start states and "
        "is no interval of the return: compare other estimates, or run episodes",
        estimates.UnreliableEstimateWarning,
    )
    unknown = float("nan")
    return dataclasses.replace(
        found, interval=(unknown, unknown), standard_error=unknown, start_state_interval=found.interval,
        warning=_NOT_JUDGED,
    )  # fmt: skip


def doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean of V(s_0) + sum_t gamma**t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) (arXiv:1511.03722, eq. 10).

    The estimate is unbiased for any model. Its variance is small if the model is accurate.

    Args:
        episodes: Recorded episodes with probabilities and the model's values.
        gamma: Discount factor per step.
        interval: Settings of the confidence interval. If None, the defaults of `Bootstrap` are used.

    Returns:
        The estimate.

    Raises:
        ValueError: If the episodes lack the model's values, or `gamma` is not in [0, 1].
        TypeError: If `gamma` is not a number, or `interval` is not a `Bootstrap`.
    """
    q, v = episodes.model()
    factor = discounts(episodes, gamma)
    weight, scale = plain_weights(episodes)
    wrong = episodes.reward + gamma * v[:, 1:] - q
    mean = SelfNormalized.mean(v[:, 0] * np.exp(-scale) + (factor * weight * wrong).sum(1))
    return estimated("doubly robust", episodes, mean, interval, scale)


def weighted_doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the doubly robust estimate with weighted averages for each step (arXiv:1604.00923, section 5).

    The estimate is consistent and has a smaller variance than `doubly_robust`. Arguments, result and errors are the
    same as in `doubly_robust`.
    """
    weight, value = _weighted_columns(episodes, gamma)
    return estimated("weighted doubly robust", episodes, SelfNormalized.total(weight, value), interval)


def magic(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the MAGIC estimate: model and guided importance sampling combined (arXiv:1604.00923, section 7).

    The estimate is a weighted mean of estimates of different lengths. An estimate of length j uses the importance
    weights for the first j steps and the model for the later steps. The weights of the mean minimise the sum of
    variance and squared bias, which are estimated with the delta method. Interval and standard error are taken from
    `weighted_doubly_robust`. The interval is widened if it does not contain the value, because the data do not
    determine the bias of the mean more precisely. Arguments, result and errors are the same as in `doubly_robust`.
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
    """Return weights and values, [E, 2 T + 1] each: V of the states 0 to T, then r - Q of the steps, all discounted."""
    q, v = episodes.model()
    factor = discounts(episodes, gamma)
    weight, _ = scaled_weights(episodes.log_weight)
    of_states = np.concatenate([np.ones((len(episodes), 1)), weight], axis=1)
    values = [np.append(factor, factor[-1] * gamma) * v, factor * (episodes.reward - q)]
    return np.concatenate([of_states, weight], axis=1), np.concatenate(values, axis=1)


def _parts(n_steps: int) -> Array:
    """Return coefficients, 0 or 1, of the columns in the estimates of lengths 0 to T, [J, 2 T + 1]."""
    every = np.arange(n_steps + 1)
    some = np.unique(np.round(np.geomspace(1, n_steps + 1, _LENGTHS))) - 1
    lengths, step = (every if len(every) <= _LENGTHS else some)[:, None], every[:-1]
    return np.concatenate([every <= lengths, step < lengths], axis=1).astype(np.float64)


def _mixture(once: Array, found: Array, influence: Array) -> Array:
    """Return the weights of the estimates in the mean, [J], from their variances and estimated biases."""
    reach = NormalDist().inv_cdf((1 + _OF_BIAS) / 2) * estimates.standard_error(once, influence[:, :, -1])
    away = found[0] - found[0, -1]
    bias = np.sign(away) * np.maximum(np.abs(away) - reach, 0.0)
    return least_square_on_simplex(covariance(once, influence)[0] + np.outer(bias, bias))


#: Estimators that need probabilities; keys are the names in `evaluate_offline`.
BY_WEIGHTS: Mapping[str, Callable[..., Estimate]] = {
    "is": importance_sampling, "wis": weighted_importance_sampling,
    "pdis": per_decision_importance_sampling, "wpdis": weighted_per_decision_importance_sampling,
    "dr": doubly_robust, "wdr": weighted_doubly_robust, "magic": magic,
}  # fmt: skip
