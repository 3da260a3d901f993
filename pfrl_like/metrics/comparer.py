"""Scorers that compare the greedy actions of two algorithms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like.metrics.scorer import check_makes, check_scored, mean, measured, scored_episodes, squared_distance
from pfrl_like.utils.checks import check_counts


def compare_continuous_action_diff(base_algo: Any, window_size: int = 1024) -> Callable[..., float]:
    """Make a scorer: minus the mean squared distance between the greedy actions of two algorithms.

    Args:
        base_algo: The algorithm that scored algorithms are compared with.
        window_size: Transitions of a minibatch.

    Returns:
        Function called as `scorer(algo, episodes)`.

    Raises:
        ValueError: If `window_size` is less than 1.
        TypeError: If it is no integer, or `base_algo` predicts nothing.
    """
    _check("compare_continuous_action_diff", base_algo, window_size)
    return lambda algo, episodes: -_compared(base_algo, algo, episodes, window_size, squared_distance)


def compare_discrete_action_match(base_algo: Any, window_size: int = 1024) -> Callable[..., float]:
    """Make a scorer: the share of states, 0 to 1, in which the greedy actions of two algorithms are the same.

    Args:
        base_algo: The algorithm that scored algorithms are compared with.
        window_size: Transitions of a minibatch.

    Returns:
        Function called as `scorer(algo, episodes)`.

    Raises:
        ValueError: If `window_size` is less than 1.
        TypeError: If it is no integer, or `base_algo` predicts nothing.
    """
    _check("compare_discrete_action_match", base_algo, window_size)
    return lambda algo, episodes: _compared(base_algo, algo, episodes, window_size, _are_equal)


def _are_equal(a: Any, b: Any) -> Any:
    return np.ravel(a) == np.ravel(b)  # some algorithms predict a column, [n, 1]


def _check(name: str, base_algo: Any, window_size: Any) -> None:
    """Check the arguments at once; otherwise errors would occur only after an epoch."""
    check_makes(f"{name}(base_algo)", window_size)
    check_scored(base_algo)
    check_counts(window_size=window_size)


def _compared(base_algo: Any, algo: Any, episodes: Any, window_size: int, measure: Callable[[Any, Any], Any]) -> float:
    """Mean of `measure` of both algorithms' actions; each gets observations with its own number of frames."""
    episodes = scored_episodes(episodes)
    return mean(measure(*(_greedy_actions(own, episodes, window_size) for own in (base_algo, algo))))


def _greedy_actions(algo: Any, episodes: Any, window_size: int) -> Any:
    return measured(algo, episodes, window_size, lambda batch: algo.predict(batch.observations))
