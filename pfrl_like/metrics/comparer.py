"""Scorers that compare the greedy actions of two algorithms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.metrics import scorer
from pfrl_like.utils.checks import check_counts


def compare_continuous_action_diff(base_algo: Any, window_size: int = 1024) -> Callable[..., float]:
    """Return a scorer of the negative mean squared distance between the greedy actions of two algorithms.

    Args:
        base_algo: Algorithm that the scorer compares with the scored algorithm.
        window_size: Number of transitions in a minibatch.

    Returns:
        Function called as `scorer(algo, episodes)`.

    Raises:
        ValueError: If `window_size` is less than 1.
        TypeError: If `window_size` is not an integer, or if `base_algo` has no `predict`.
    """
    _check("compare_continuous_action_diff", base_algo, window_size)
    return lambda algo, episodes: -_compare(base_algo, algo, episodes, window_size, scorer.squared_distance)


def compare_discrete_action_match(base_algo: Any, window_size: int = 1024) -> Callable[..., float]:
    """Return a scorer of the fraction of states in which two algorithms have the same greedy action.

    Args:
        base_algo: Algorithm that the scorer compares with the scored algorithm.
        window_size: Number of transitions in a minibatch.

    Returns:
        Function called as `scorer(algo, episodes)`.

    Raises:
        ValueError: If `window_size` is less than 1.
        TypeError: If `window_size` is not an integer, or if `base_algo` has no `predict`.
    """
    _check("compare_discrete_action_match", base_algo, window_size)
    return lambda algo, episodes: _compare(base_algo, algo, episodes, window_size, _are_equal)


def _are_equal(a: Any, b: Any) -> Any:
    return np.ravel(a) == np.ravel(b)  # some algorithms predict a column, [n, 1]


def _check(name: str, base_algo: Any, window_size: Any) -> None:
    """Check the arguments before training. Otherwise the scorer would raise errors only after the first epoch."""
    scorer.check_not_episodes(f"{name}(base_algo)", window_size)
    scorer.check_scored(base_algo)
    check_counts(window_size=window_size)


def _compare(base_algo: Any, algo: Any, episodes: Any, window_size: int, measure: Callable[[Any, Any], Any]) -> float:
    """Return the mean of `measure(a, b)` over all transitions; a and b are the greedy actions of the two algorithms."""
    episodes = scorer.scored_episodes(episodes)
    return scorer.mean(measure(*(_greedy_actions(each, episodes, window_size) for each in (base_algo, algo))))


def _greedy_actions(algo: Any, episodes: Any, window_size: int) -> Any:
    return scorer.evaluate(algo, episodes, window_size, lambda batch: algo.predict(batch.observations))
