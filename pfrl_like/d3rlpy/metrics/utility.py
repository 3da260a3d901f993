"""Mean returns of algorithms in environments."""

from typing import Any

from pfrl_like.metrics.scorer import evaluate_on_environment


def evaluate_qlearning_with_environment(algo: Any, env: Any, n_trials: int = 10, epsilon: float = 0.0) -> float:
    """Return the mean undiscounted return of an algorithm.

    The random streams are restored after the episodes.

    Args:
        algo: Algorithm with `predict`, which takes a batch of one observation.
        env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id. Observations are arrays, or
            tuples of arrays if the observation space is a `Tuple`.
        n_trials: Number of episodes.
        epsilon: Probability of a random action.

    Raises:
        ValueError: If `n_trials` is less than 1, or `epsilon` is not between 0 and 1.
        TypeError: If `algo` has no `predict`, or `env` is no environment.
    """
    return evaluate_on_environment(env, n_trials, epsilon)(algo)
