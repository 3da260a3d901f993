"""Mean returns of algorithms in environments.

`EnvironmentEvaluator` is the same for algorithms that learn from transitions, as an evaluator of `fit`.
"""

from typing import Any

from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import open_env
from pfrl_like.metrics.scorer import evaluate_on_environment
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_counts


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


def evaluate_transformer_with_environment(algo: Any, env: Any, n_trials: int = 10) -> float:
    """Return the mean undiscounted return of a stateful transformer.

    The random streams are restored after the episodes. In d3rlpy they are not: an evaluation within `fit` with sampled
    actions changes the minibatches of later epochs there.

    Args:
        algo: Algorithm with `predict(observation, reward)` and `reset()`, such as a `StatefulTransformerWrapper`. The
            reward is that of the previous action, 0 at the start of an episode.
        env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id.
        n_trials: Number of episodes.

    Raises:
        ValueError: If `n_trials` is less than 1.
        TypeError: If `algo` has no `reset`, or `env` is no environment.
    """
    check_counts(n_trials=n_trials)
    if not hasattr(algo, "reset"):
        raise TypeError(f"algo is {type(algo).__name__}, without reset(): pass algo.as_stateful_wrapper(target_return)")
    with open_env(env) as opened, isolated_rng(opened):
        adapted, total = as_gymnasium(opened), 0.0
        for _ in range(n_trials):
            algo.reset()
            (observation, _), reward, ended = adapted.reset(), 0.0, False
            while not ended:
                observation, reward, terminated, truncated, _ = adapted.step(algo.predict(observation, float(reward)))
                total, ended = total + float(reward), terminated or truncated
        return total / n_trials
