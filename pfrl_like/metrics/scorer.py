"""Scores of algorithms and of dynamics models on episodes.

Larger is better throughout: what should be small has a minus sign. An algorithm is anything with `predict`,
`predict_value` and `gamma`, a dynamics model anything with `predict(x, action, with_variance)`. Minibatches of
`window_size` transitions are computed at a time; the score is a mean over all transitions, whatever their size is.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pfrl_like.functions.rollout_returns import lambda_returns
from pfrl_like.metrics.environment import evaluate_on_environment as evaluate_on_environment
from pfrl_like.metrics.minibatches import has_discrete_actions, mean, measured, scored_episodes


def td_error_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared TD error, (Q(s, a) - (r + gamma * Q(s', greedy action)))^2; r pays for a.

    Where the algorithm has a `reward_scaler`, r is scaled, as its values are.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def squared_error(batch: Any) -> Any:
        target = _learnt_rewards(algo, batch.action_rewards[:, 0])
        target = target + _greedy_values(algo, batch.next_observations) * algo.gamma * (batch.terminals[:, 0] == 0)
        return (_values(algo, batch.observations, batch.actions) - target) ** 2

    return -mean(measured(algo, episodes, window_size, squared_error))


def discounted_sum_of_advantage_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean, over all steps, of the discounted sum of advantages from there to the end of the episode.

    The advantage of a step is Q(s, a) - Q(s, greedy action) (Murphy 2005, "A generalization error for Q-learning").
    The score is large where the data's actions are valued less than the greedy ones.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def advantage_of(batch: Any) -> Any:
        value = _values(algo, batch.observations, batch.actions)
        return value - _greedy_values(algo, batch.observations)

    episodes = scored_episodes(episodes)
    advantage = torch.from_numpy(measured(algo, episodes, window_size, advantage_of))
    continues = torch.ones(len(advantage), dtype=torch.bool)
    continues[np.cumsum([len(episode) for episode in episodes if len(episode)]) - 1] = False
    discount = torch.full_like(advantage, algo.gamma)
    sums = lambda_returns(advantage, discount, torch.zeros_like(advantage), continues, lambd=1.0)
    return -float(sums.mean())


def average_value_estimation_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean of Q(s, greedy action), which is large where a Q-function overestimates.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """
    return -mean(measured(algo, episodes, window_size, lambda batch: _greedy_values(algo, batch.observations)))


def value_estimation_std_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean standard deviation of Q(s, greedy action) among the algorithm's critics.

    It says most of algorithms with `bootstrap` and many critics.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def deviation(batch: Any) -> Any:
        return algo.predict_value(batch.observations, algo.predict(batch.observations), with_std=True)[1]

    return -mean(measured(algo, episodes, window_size, deviation))


def initial_state_value_estimation_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """The mean of Q(s, greedy action) in the first states of the episodes (Paine et al. 2020, arXiv:2007.09055).

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: First states of a minibatch.
    """

    def value(batch: Any) -> Any:
        return _greedy_values(algo, batch.observations)

    return mean(measured(algo, episodes, window_size, value, first_only=True))


def soft_opc_scorer(return_threshold: float) -> Callable[..., float]:
    """A scorer by soft off-policy classification (Irpan et al. 2019, arXiv:1906.01624).

    The score is the mean of Q(s, a) in successful episodes less that in all. It raises a ValueError where no episode
    is successful.

    Args:
        return_threshold: Above which a return makes an episode successful.

    Returns:
        Function called as `scorer(algo, episodes, window_size=1024)`.
    """

    def scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
        def value_of(batch: Any) -> Any:
            return _values(algo, batch.observations, batch.actions)

        episodes = scored_episodes(episodes)
        value = measured(algo, episodes, window_size, value_of)
        returns = [episode.compute_return() for episode in episodes]
        success = np.repeat(np.array(returns) > return_threshold, [len(episode) for episode in episodes])
        if not success.any():
            raise ValueError(f"return_threshold: got {return_threshold}, but no return is above {max(returns)}")
        return mean(value[success]) - mean(value)

    return scorer


def continuous_action_diff_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared distance between the data's actions and the greedy ones, summed over their numbers.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.

    Raises:
        TypeError: If the episodes have discrete actions.
    """

    def distance(batch: Any) -> Any:
        if has_discrete_actions(batch):
            raise TypeError("the episodes have discrete actions, which discrete_action_match_scorer compares")
        return squared_distance(batch.actions, algo.predict(batch.observations))

    return -mean(measured(algo, episodes, window_size, distance))


def discrete_action_match_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """The share of steps, 0 to 1, in which the greedy action is that of the data.

    Args:
        algo: The algorithm.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.

    Raises:
        TypeError: If the episodes have continuous actions.
    """

    def match(batch: Any) -> Any:
        if not has_discrete_actions(batch):
            raise TypeError("the episodes have continuous actions, which continuous_action_diff_scorer compares")
        return batch.actions == np.reshape(algo.predict(batch.observations), batch.actions.shape)

    return mean(measured(algo, episodes, window_size, match))


def dynamics_observation_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared distance between next observations and those predicted, summed over their numbers.

    Terminal states that nobody told do not count.

    Args:
        dynamics: The dynamics model.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def error(batch: Any) -> Any:
        predicted = _predicted(dynamics, batch)[0]
        return squared_distance(batch.next_observations, predicted)

    return -mean(measured(dynamics, episodes, window_size, error, told_next=True))


def dynamics_reward_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared error of predicted rewards, those that the actions have brought.

    Args:
        dynamics: The dynamics model.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def error(batch: Any) -> Any:
        predicted = _predicted(dynamics, batch)[1]
        return squared_distance(batch.action_rewards, np.reshape(predicted, (-1, 1)))

    return -mean(measured(dynamics, episodes, window_size, error))


def dynamics_prediction_variance_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean of the variance that a dynamics model gives with its predictions.

    Args:
        dynamics: The dynamics model.
        episodes: The episodes, or a dataset.
        window_size: Transitions of a minibatch.
    """

    def variance(batch: Any) -> Any:
        return _predicted(dynamics, batch, with_variance=True)[2]

    return -mean(measured(dynamics, episodes, window_size, variance))


def squared_distance(a: Any, b: Any) -> Any:
    """Squares of differences, summed over all axes but the first, [B].

    Raises:
        ValueError: If the shapes differ.
    """
    if np.shape(a) != np.shape(b):
        raise ValueError(f"got {np.shape(b)} predictions for values of shape {np.shape(a)}")
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    return (difference.reshape(len(difference), -1) ** 2).sum(1)


def _predicted(dynamics: Any, batch: Any, **options: Any) -> Any:
    """What a dynamics model predicts.

    Raises:
        TypeError: If it is none.
    """
    pair = batch.observations, batch.actions
    try:
        inspect.signature(dynamics.predict).bind(*pair, **options)
    except TypeError:
        expected = "a dynamics model, which predicts from observations and actions, such as a MOPO"
        raise TypeError(f"dynamics is a {type(dynamics).__name__}, expected {expected}") from None
    return dynamics.predict(*pair, **options)


def _learnt_rewards(algo: Any, rewards: Any) -> Any:
    """Rewards as an algorithm learns from them."""
    scaler = getattr(algo, "reward_scaler", None)
    return rewards if scaler is None else scaler.transform(torch.as_tensor(rewards)).numpy()


def _values(algo: Any, observations: Any, actions: Any) -> Any:
    return np.asarray(algo.predict_value(observations, actions), np.float64).reshape(len(observations))


def _greedy_values(algo: Any, observations: Any) -> Any:
    return _values(algo, observations, algo.predict(observations))
