"""Importance sampling over whole episodes, plain and weighted, and per decision (Precup et al. 2000).

The weight of a step is the product of the ratios pi_e(a|s) / pi_b(a|s) from the episode's beginning on.
"""

import dataclasses

import numpy as np

from pfrl_like.ope.episodes import Array, LoggedEpisodes, scaled_weights
from pfrl_like.ope.estimate import Bootstrap, Estimate, estimate, settings_of
from pfrl_like.ope.self_normalized import SelfNormalized
from pfrl_like.utils.checks import check_numbers


def importance_sampling(episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None) -> Estimate:
    """Mean of each episode's return times its last weight: unbiased, and of large variance.

    Args:
        episodes: Recorded episodes with probabilities.
        gamma: Discount factor per step.
        interval: How the interval is made; None for a `Bootstrap` as it is by default.

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
    """The returns' average with the last weights: consistent, biased towards the behaviour policy for few episodes.

    It is NaN where no episode has any weight. Arguments, result and errors are those of `importance_sampling`.
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
    """Mean of the rewards' discounted sums, each reward times the weight of its own step: unbiased.

    Arguments, result and errors are those of `importance_sampling`.
    """
    weight, scale = plain_weights(episodes)
    mean = SelfNormalized.mean((weight * discounts(episodes, gamma) * episodes.reward).sum(1))
    return estimated("per-decision importance sampling", episodes, mean, interval, scale)


def weighted_per_decision_importance_sampling(
    episodes: LoggedEpisodes, gamma: float, interval: Bootstrap | None = None
) -> Estimate:
    """Discounted sum over steps of the rewards' averages with the weights of the step: consistent.

    This is the consistent form (Thomas 2015, "Safe reinforcement learning", 3.10), in which an episode that is over
    goes on with its last weight and rewards of 0. Arguments, result and errors are those of `importance_sampling`.
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
    """Weights of all steps, [E, T], divided by the largest one if it is above 1, and the logarithm of that."""
    scale = max(0.0, float(episodes.log_weight.max()))
    return np.exp(episodes.log_weight - scale), scale


def estimated(
    estimator: str,
    episodes: LoggedEpisodes,
    numbers: SelfNormalized,
    interval: Bootstrap | None,
    scale: float = 0.0,
    weighted: bool = True,
) -> Estimate:
    """The estimate that is one number of weighted averages."""

    def statistic(counts: Array) -> tuple[Array, Array]:
        values, influence = numbers(counts)
        return values[:, 0], influence[:, :, 0]

    settings = settings_of(interval)
    return estimate(
        estimator, episodes, statistic, settings, width=numbers.width, log_scale=scale, weighted=weighted
    )  # fmt: skip
