"""Estimators of returns: importance sampling (Precup et al. 2000), direct method, doubly robust estimators, MAGIC.

The weight of a step is the product of the ratios pi_e(a|s) / pi_b(a|s) from the first step of the episode to this step.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.ope import estimates
from pfrl_like.ope.episodes import Array, LoggedEpisodes, scaled_weights
from pfrl_like.ope.estimates import Bootstrap, Estimate
from pfrl_like.utils.checks import check_numbers, levels_to_the_caller, warn_once


@dataclasses.dataclass(frozen=True, eq=False)
class SelfNormalized:
    """K weighted averages over episodes, and J weighted sums of these averages. Every estimator is such a sum.

    The average k is `sum_i w_ik x_ik / sum_i w_ik`. If all weights of an average are 0, the average is 0.

    Attributes:
        weight: Weights w, at least 0, [E, K].
        value: Values x, [E, K].
        coefficients: Coefficients of the K averages in each of the J sums, [J, K].
    """

    weight: Array
    value: Array
    coefficients: Array

    @classmethod
    def mean(cls, value: Array) -> Self:
        """Return the object whose only sum is the unweighted mean of `value`, [E]."""
        return cls(np.ones((len(value), 1)), value[:, None], np.ones((1, 1)))

    @classmethod
    def total(cls, weight: Array, value: Array) -> Self:
        """Return the object whose only sum is the sum of all averages."""
        return cls(weight, value, np.ones((1, weight.shape[1])))

    @property
    def width(self) -> int:
        """Number of floats that a call keeps in memory for each resample."""
        return len(self.coefficients) * sum(self.weight.shape)

    def __call__(self, counts: Array) -> tuple[Array, Array]:
        """Return the sums of averages for resamples, and the influence functions of the sums.

        Args:
            counts: Number of copies of each episode in each of B resamples, [B, E].

        Returns:
            The sums, [B, J], and the influence of each episode on the sums, [B, E, J]. One more copy of an episode
            changes a sum approximately by its influence divided by the size of the resample.
        """
        sums = counts @ self.weight
        share = np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)
        weighted = self.weight * self.value
        average = (counts @ weighted) * share
        sums_of_averages = average @ self.coefficients.T
        size = counts.sum(1)[:, None, None]
        factors = self.coefficients[None] * share[:, None] * size  # [B, J, K]
        influence = weighted @ factors.swapaxes(1, 2) - self.weight @ (factors * average[:, None]).swapaxes(1, 2)
        return sums_of_averages, influence


def covariance(counts: Array, influence: Array) -> Array:
    """Return the covariances of J sums, [B, J, J], from their influence functions, [B, E, J] (delta method)."""
    size = counts.sum(1)[:, None, None]
    spread = (counts[:, :, None] * influence).swapaxes(1, 2) @ influence
    return np.asarray(spread / (size * np.maximum(size - 1.0, 1.0)))


def importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean over episodes of the product of return and last weight. It is unbiased, with a large variance.

    Args:
        episodes: Recorded episodes.
        gamma: Discount factor per step.
        interval: Settings of the confidence interval. If None, the defaults of `Bootstrap` are used.

    Returns:
        The estimate.

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If `gamma` is not a number, or `interval` is not a `Bootstrap`.
    """
    returns = (discounts(episodes, gamma) * episodes.reward).sum(1)
    weight, scale = scaled_by_maximum(episodes)
    mean = SelfNormalized.mean(weight[:, -1] * returns)
    return make_estimate("importance sampling", episodes, mean, interval, scale)


def weighted_importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the weighted average of the returns, with the last weight of each episode.

    The estimate is consistent. With few episodes, the estimate is biased towards the return of the behaviour policy.
    The estimate is NaN if no episode has a weight above 0. Arguments, result and errors are the same as in
    `importance_sampling`.
    """
    returns = (discounts(episodes, gamma) * episodes.reward).sum(1, keepdims=True)
    weight, _ = scaled_weights(episodes.log_weight[:, -1:])
    average = SelfNormalized.total(weight, returns)
    estimate = make_estimate("weighted importance sampling", episodes, average, interval)
    unknown = float("nan")
    if estimate.effective_sample_size == 0:
        return dataclasses.replace(estimate, value=unknown, interval=(unknown, unknown), standard_error=unknown)
    return estimate


def per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Return the mean over episodes of the discounted sum of weighted rewards.

    Each reward is multiplied by the weight of its step. The estimate is unbiased. Arguments, result and errors are the
    same as in `importance_sampling`.
    """
    weight, scale = scaled_by_maximum(episodes)
    mean = SelfNormalized.mean((weight * discounts(episodes, gamma) * episodes.reward).sum(1))
    return make_estimate("per-decision importance sampling", episodes, mean, interval, scale)


def weighted_per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Return the discounted sum, over all time steps, of the weighted average of the rewards at this time step.

    The estimate is consistent. After the end of an episode, its reward is 0 and its weight stays the last weight
    of the episode (Thomas 2015, "Safe reinforcement learning", 3.10). Arguments, result and errors are the same as in
    `importance_sampling`.
    """
    weight, _ = scaled_weights(episodes.log_weight)
    averages = SelfNormalized.total(weight, discounts(episodes, gamma) * episodes.reward)
    return make_estimate("weighted per-decision importance sampling", episodes, averages, interval)


def discounts(episodes: LoggedEpisodes, gamma: float) -> Array:
    """Return gamma**t for each step, [T].

    Raises:
        ValueError: If `gamma` is not in [0, 1].
        TypeError: If `gamma` is not a number.
    """
    check_numbers(0, 1, gamma=gamma)
    return np.asarray(float(gamma) ** np.arange(episodes.reward.shape[1]))


def scaled_by_maximum(episodes: LoggedEpisodes) -> tuple[Array, float]:
    """Return the weights of all steps, [E, T], divided by max(1, maximum weight), and the logarithm of the divisor."""
    scale = max(0.0, float(episodes.log_weight.max()))
    return np.exp(episodes.log_weight - scale), scale


def make_estimate(
    estimator: str,
    episodes: LoggedEpisodes,
    sums: SelfNormalized,
    settings: Bootstrap | None,
    log_scale: float = 0.0,
    weighted: bool = True,
) -> Estimate:
    """Return the estimate that is the sum of weighted averages, with its confidence interval.

    Args:
        estimator: Name of the estimator.
        episodes: The episodes.
        sums: The averages and their sum.
        settings: Settings of the confidence interval. If None, the defaults of `Bootstrap` are used.
        log_scale: Logarithm of the factor by which the sum is multiplied to get the estimate.
        weighted: True if the estimate uses importance weights.

    Returns:
        The estimate. If the value is too large for a float, the value is infinite or NaN, and the interval and the
        standard error are NaN.
    """

    def statistic(counts: Array) -> tuple[Array, Array]:
        values, influence = sums(counts)
        return values[:, 0], influence[:, :, 0]

    settings, once = estimates.settings_of(settings), np.ones((1, len(episodes)))
    with np.errstate(over="ignore", invalid="ignore"):
        values, influence = statistic(once)
        value, error = float(values[0]), float(estimates.standard_error(once, influence)[0])
        resamples = estimates.bootstrap(statistic, len(episodes), settings.n_resamples, sums.width, settings.rng)
        bounds = estimates.interval(settings.kind, settings.confidence, value, error, influence[0], resamples)
        scale = float(np.exp(log_scale))
    size = episodes.effective_sample_size if weighted else float("nan")
    warning, n_effective = estimates.reliability(episodes) if weighted else ("", size)
    if warning:
        unreliable = estimates.UnreliableEstimateWarning(f"{estimator}: {warning}", n_effective)
        warnings.warn(unreliable, stacklevel=levels_to_the_caller())
    scaled = [0.0 if number == 0 else float(number) * scale for number in (value, error, *bounds)]
    value, error, low, high = scaled if np.isfinite(scaled[0]) else [scaled[0]] + [float("nan")] * 3
    return Estimate(
        estimator, value, (low, high), settings.confidence, settings.kind, error, size, len(episodes),
        int(episodes.truncated.sum()), warning,
    )  # fmt: skip


def least_square_on_simplex(matrix: Array) -> Array:
    """Return the vector x >= 0, [J], that sums to 1 and minimises x' A x.

    The solution is x = z / sum(z), where A z = 1 in the elements with z > 0. z is found with the active-set method for
    non-negative least squares (Lawson and Hanson 1974, "Solving least squares problems", chapter 23).

    Args:
        matrix: A, positive semi-definite, [J, J].
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
        while (wanted := _solve_active(a, active)).min() <= 0 < active.sum():
            _move(z, wanted, active)
        z[:] = 0.0
        z[active] = wanted
    return np.asarray(z / z.sum())


def _solve_active(a: Array, active: NDArray[np.bool_]) -> Array:
    return np.asarray(np.linalg.solve(a[np.ix_(active, active)], np.ones(int(active.sum()))), np.float64)


def _move(z: Array, wanted: Array, active: NDArray[np.bool_]) -> None:
    """Move z towards `wanted` until an element is 0, and make this element inactive."""
    at = np.flatnonzero(active)
    falling = wanted <= 0
    reach = z[at] / np.where(falling, z[at] - wanted, 1.0)
    share = reach[falling].min()
    z[at] += share * (wanted - z[at])
    zero = at[falling & (reach <= share)]
    z[zero], active[zero] = 0.0, False


#: Maximum number of lengths that MAGIC combines.
_MAX_LENGTHS = 20
#: Text of the warning about values that are computed only from a model.
_UNKNOWN_COVERAGE = "coverage is unknown: the error of the model may be far larger than the spread of start states"
#: MAGIC estimates the bias of an estimate from a confidence interval with this confidence (arXiv:1604.00923, 7.2).
_BIAS_CONFIDENCE = 0.9


def direct_method(episodes: LoggedEpisodes, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean of the model's V(s_0).

    The error of the model is unknown. So the `interval` of the estimate is NaN, and its `start_state_interval` contains
    only the spread of start states. An `UnreliableEstimateWarning` is issued, once per process.

    Args:
        episodes: Recorded episodes with the model's values. Their probabilities are not used.
        interval: Settings of the `start_state_interval`. If None, the defaults of `Bootstrap` are used.

    Returns:
        The estimate.

    Raises:
        ValueError: If the episodes lack the model's values.
        TypeError: If `interval` is not a `Bootstrap`.
    """
    _, v = episodes.model()
    estimate = make_estimate("direct method", episodes, SelfNormalized.mean(v[:, 0]), interval, weighted=False)
    text = f"fqe, the direct method: {_UNKNOWN_COVERAGE}. Compare other estimates, or run episodes"
    warn_once("coverage of the direct method", text, estimates.UnreliableEstimateWarning)
    unknown: dict[str, Any] = {"interval": (float("nan"), float("nan")), "standard_error": float("nan")}
    states = estimate.interval
    return dataclasses.replace(estimate, **unknown, start_state_interval=states, warning=_UNKNOWN_COVERAGE)


def doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the mean of V(s_0) + sum_t gamma**t w_t (r_t + gamma V(s_{t+1}) - Q(s_t, a_t)) (arXiv:1511.03722, eq. 10).

    The estimate is unbiased for any model. Its variance is small if the model is accurate.

    Args:
        episodes: Recorded episodes with the model's values.
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
    weight, scale = scaled_by_maximum(episodes)
    td_error = episodes.reward + gamma * v[:, 1:] - q
    mean = SelfNormalized.mean(v[:, 0] * np.exp(-scale) + (factor * weight * td_error).sum(1))
    return make_estimate("doubly robust", episodes, mean, interval, scale)


def weighted_doubly_robust(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the doubly robust estimate with a weighted average for each step (arXiv:1604.00923, section 5).

    The estimate is consistent and has a smaller variance than `doubly_robust`. Arguments, result and errors are the
    same as in `doubly_robust`.
    """
    weight, value = _weighted_columns(episodes, gamma)
    return make_estimate("weighted doubly robust", episodes, SelfNormalized.total(weight, value), interval)


def magic(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Return the MAGIC estimate: model and guided importance sampling combined (arXiv:1604.00923, section 7).

    The estimate is a weighted mean of estimates of different lengths. An estimate of length j uses importance weights
    for the first j steps and the model for the later steps. The weights of the mean minimise the sum of variance and
    squared bias, which are estimated with the delta method. The standard error and the interval are those of
    `weighted_doubly_robust`. If this interval does not contain the value of the estimate, it is extended to the value.
    Arguments, result and errors are the same as in `doubly_robust`.
    """
    weight, value = _weighted_columns(episodes, gamma)
    once = np.ones((1, len(episodes)))
    with np.errstate(over="ignore", invalid="ignore"):
        of_lengths, influence = SelfNormalized(weight, value, _length_coefficients(episodes.reward.shape[1]))(once)
        mixed = float(_length_weights(once, of_lengths, influence) @ of_lengths[0])
    whole = make_estimate("MAGIC", episodes, SelfNormalized.total(weight, value), interval)
    low, high = whole.interval
    return dataclasses.replace(whole, value=mixed, interval=(min(low, mixed), max(high, mixed)))


def _weighted_columns(episodes: LoggedEpisodes, gamma: float) -> tuple[Array, Array]:
    """Return weights and discounted values, [E, 2 T + 1] each: V of the states, then r - Q of the steps."""
    q, v = episodes.model()
    factor = discounts(episodes, gamma)
    weight, _ = scaled_weights(episodes.log_weight)
    state_weight = np.concatenate([np.ones((len(episodes), 1)), weight], axis=1)
    values = [np.append(factor, factor[-1] * gamma) * v, factor * (episodes.reward - q)]
    return np.concatenate([state_weight, weight], axis=1), np.concatenate(values, axis=1)


def _length_coefficients(n_steps: int) -> Array:
    """Return the coefficients, 0 or 1, of the result of `_weighted_columns` in estimates of J lengths, [J, 2 T + 1]."""
    every = np.arange(n_steps + 1)
    some = np.unique(np.round(np.geomspace(1, n_steps + 1, _MAX_LENGTHS))) - 1
    lengths, step = (every if len(every) <= _MAX_LENGTHS else some)[:, None], every[:-1]
    return np.concatenate([every <= lengths, step < lengths], axis=1).astype(np.float64)


def _length_weights(once: Array, values: Array, influence: Array) -> Array:
    """Return the weights of the estimates of J lengths in the mean, [J], from their variances and estimated biases."""
    reach = NormalDist().inv_cdf((1 + _BIAS_CONFIDENCE) / 2) * estimates.standard_error(once, influence[:, :, -1])
    difference = values[0] - values[0, -1]
    bias = np.sign(difference) * np.maximum(np.abs(difference) - reach, 0.0)
    return least_square_on_simplex(covariance(once, influence)[0] + np.outer(bias, bias))


#: Estimators with importance weights, keyed by their names in `evaluate_offline`.
BY_WEIGHTS: Mapping[str, Callable[..., Estimate]] = {
    "is": importance_sampling, "wis": weighted_importance_sampling,
    "pdis": per_decision_importance_sampling, "wpdis": weighted_per_decision_importance_sampling,
    "dr": doubly_robust, "wdr": weighted_doubly_robust, "magic": magic,
}  # fmt: skip
