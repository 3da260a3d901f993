"""Scorers of algorithms and of dynamics models on episodes.

A larger score is better; errors and variances therefore have a minus sign. An algorithm is an object with `predict`,
`predict_value` and `gamma`. A dynamics model is an object with `predict(x, action, with_variance)`. A scorer computes
minibatches of `window_size` transitions. The score is a mean over all transitions and does not depend on `window_size`.
"""

import inspect
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import ACTION_MASK
from pfrl_like.dataset import Episode, TransitionMiniBatch
from pfrl_like.dataset.episode import as_episodes
from pfrl_like.dataset.transition import Transitions
from pfrl_like.env import as_gymnasium
from pfrl_like.functions.returns import lambda_returns
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.env_values import required_keyword, sample_allowed


def check_scored(algo: Any) -> None:
    """Check that an object has `predict`, so that it can be scored. An agent has no `predict`.

    Raises:
        TypeError: If the object has no `predict`. The message contains its class and the functions that score agents.
    """
    if not hasattr(algo, "predict"):
        raise TypeError(
            f"algo is {type(algo).__name__}, expected an algorithm or a dynamics model with a method predict; "
            "experiments.eval_performance and ope.evaluate_offline score agents"
        )


def check_makes(call: str, given: Any) -> None:
    """Check that a function that makes scorers was not itself called as a scorer, with episodes.

    Args:
        call: Correct call of the function, such as "evaluate_on_environment(env)".
        given: Argument of the function that should be a number. In the call of a scorer, it would be the episodes.

    Raises:
        TypeError: If `given` is None (a scorer without episodes) or a collection.
    """
    if given is None or (isinstance(given, Iterable) and not isinstance(given, str)):
        name = call.partition("(")[0]
        raise TypeError(f"{name} was called like a scorer, but it makes a scorer: pass {call} instead")


def evaluate_on_environment(
    env: Any, n_trials: int = 10, epsilon: float = 0.0, render: bool = False
) -> Callable[..., float]:
    """Make a scorer that returns the mean undiscounted return of episodes in an environment.

    The random streams of the caller do not change. If `info` of the environment contains an "action_mask", only allowed
    actions are chosen: the mask is passed to `algo.predict` as the keyword `action_mask`, [1, n_actions].

    Args:
        env: Environment in any form that `pfrl_like.env.as_gymnasium` accepts.
        n_trials: Number of episodes.
        epsilon: Probability of a random action.
        render: True to call `env.render()` after each step.

    Returns:
        Function that is called as `scorer(algo)` or `scorer(algo, episodes)`. It ignores the episodes.

    Raises:
        ValueError: If `n_trials` is less than 1, or if `epsilon` is not between 0 and 1.
        TypeError: If `n_trials` or `epsilon` is not a number, if `env` is not an environment, or if it is a vector
            environment. The scorer raises it if `env` has an action mask and `algo.predict` does not accept the
            keyword.
    """
    check_makes("evaluate_on_environment(env)", n_trials)
    check_counts(n_trials=n_trials)
    check_numbers(0, 1, epsilon=epsilon)
    adapted = as_gymnasium(env)

    def scorer(algo: Any, *args: Any) -> float:
        check_scored(algo)
        with isolated_rng(env):
            return float(np.mean([_return_of_episode(adapted, algo, epsilon, render) for _ in range(n_trials)]))

    return scorer


def _return_of_episode(env: Any, algo: Any, epsilon: float, render: bool) -> float:
    obs, info = env.reset()
    frames = LastFrames(getattr(algo, "n_frames", 1))
    total, ended = 0.0, False
    while not ended:
        stack = frames.push(obs)
        mask = info.get(ACTION_MASK)
        explores = np.random.random() < epsilon
        action = sample_allowed(env.action_space, mask) if explores else _greedy_action(algo, stack, mask)
        obs, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        ended = terminated or truncated
        if render:
            env.render()
    return total


def _greedy_action(algo: Any, obs: Any, mask: Any) -> Any:
    keywords = required_keyword(algo.predict, None if mask is None else np.asarray(mask)[None])
    action = algo.predict(np.asarray(obs)[None], **keywords)[0]
    return action.item() if np.ndim(action) == 0 else action


class LastFrames:
    """Stacks the last images of an episode along the first axis. Before the first image, the stack contains zeros.

    Args:
        n_frames: Number of images in a stack. Observations that are not images (three axes) are not stacked.
    """

    def __init__(self, n_frames: int) -> None:
        self._n_frames = n_frames
        self._frames: deque[NDArray[Any]] = deque(maxlen=n_frames)

    def push(self, obs: Any) -> Any:
        """Return the stack that ends with this observation."""
        if self._n_frames == 1 or np.ndim(obs) != 3:
            return obs
        frame = np.array(obs)
        missing = self._n_frames - 1 - len(self._frames)
        self._frames.extend([*[np.zeros_like(frame)] * missing, frame])
        return np.concatenate(self._frames)


def scored_episodes(episodes: Any) -> list[Episode]:
    """Return the episodes, or the episodes of a dataset, as a list.

    Raises:
        ValueError: If the episodes contain no transition.
        TypeError: If an item is not an episode.
    """
    if episodes is None:
        raise TypeError("episodes is None, expected episodes or a dataset: pass eval_episodes to fit")
    return as_episodes(episodes)


def minibatches(
    episodes: Iterable[Episode],
    window_size: int,
    n_frames: int = 1,
    *,
    first_only: bool = False,
    told_next: bool = False,
) -> Iterator[TransitionMiniBatch]:
    """Yield the transitions in order, `window_size` at a time. A minibatch may contain several episodes.

    Args:
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
        n_frames: Number of images in a stack.
        first_only: True to use only the first transition of each episode.
        told_next: True to skip transitions whose next observation is a terminal state that was not recorded.

    Raises:
        ValueError: If `window_size` is less than 1, or if the episodes contain no transition.
        TypeError: If an item is not an episode.
    """
    check_counts(window_size=window_size)
    for _, group in groupby(scored_episodes(episodes), key=lambda episode: id(episode.table)):
        own = list(group)
        table, action_size = own[0].table, own[0].get_action_size()
        all_rows = np.concatenate([episode.steps[: 1 if first_only else None] for episode in own])
        all_rows = all_rows[np.isin(all_rows, table.steps_with_next_obs)] if told_next else all_rows
        for start in range(0, len(all_rows), window_size):
            rows = all_rows[start : start + window_size]
            yield TransitionMiniBatch.of_rows(Transitions(table, rows, action_size), table, rows, n_frames)


def measured(
    model: Any,
    episodes: Iterable[Episode],
    window_size: int,
    measure: Callable[[TransitionMiniBatch], Any],
    *,
    first_only: bool = False,
    told_next: bool = False,
) -> NDArray[Any]:
    """Return the values of `measure` for all transitions in order, [N, ...].

    Args:
        model: Algorithm or dynamics model. If it has an attribute `n_frames`, this is the number of stacked images.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
        measure: Function that takes a minibatch and returns a value for each transition, [B, ...].
        first_only: True to use only the first transition of each episode.
        told_next: True to skip transitions whose next observation is a terminal state that was not recorded.

    Raises:
        ValueError: If the episodes contain no transition, or if `window_size` is less than 1.
        TypeError: If an item is not an episode, or if `model` has no `predict`.
    """
    check_scored(model)
    options = {"first_only": first_only, "told_next": told_next}
    windows = minibatches(episodes, window_size, getattr(model, "n_frames", 1), **options)
    found = [np.asarray(measure(window)) for window in windows]  # one at a time: images need much memory
    if not found:
        raise ValueError("no transition of the episodes has a recorded next observation")
    return np.concatenate(found)


def mean(values: Any) -> float:
    """The mean in double precision."""
    return float(np.mean(values, dtype=np.float64))


def has_discrete_actions(batch: TransitionMiniBatch) -> bool:
    """True if the actions are discrete."""
    return batch.actions.ndim == 1


def td_error_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared TD error, (Q(s, a) - (r + gamma * Q(s', greedy action)))^2. r is the reward of a.

    If the algorithm has a `reward_scaler`, r is scaled in the same way as the values of the algorithm.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def squared_error(batch: Any) -> Any:
        target = _learnt_rewards(algo, batch.action_rewards[:, 0])
        target = target + _greedy_values(algo, batch.next_observations) * algo.gamma * (batch.terminals[:, 0] == 0)
        return (_values(algo, batch.observations, batch.actions) - target) ** 2

    return -mean(measured(algo, episodes, window_size, squared_error))


def discounted_sum_of_advantage_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean over all steps of the discounted sum of advantages from the step to the end of the episode.

    The advantage of a step is Q(s, a) - Q(s, greedy action) (Murphy 2005, "A generalization error for Q-learning").
    The score is large if the recorded actions have smaller values than the greedy actions.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
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
    """Minus the mean of Q(s, greedy action). The mean is large if a Q-function overestimates.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """
    return -mean(measured(algo, episodes, window_size, lambda batch: _greedy_values(algo, batch.observations)))


def value_estimation_std_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean standard deviation of Q(s, greedy action) over the algorithm's critics.

    It is most informative for algorithms with `bootstrap` and many critics.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def deviation(batch: Any) -> Any:
        return algo.predict_value(batch.observations, algo.predict(batch.observations), with_std=True)[1]

    return -mean(measured(algo, episodes, window_size, deviation))


def initial_state_value_estimation_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """The mean of Q(s, greedy action) in the first states of the episodes (Paine et al. 2020, arXiv:2007.09055).

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of first states in a minibatch.
    """

    def value(batch: Any) -> Any:
        return _greedy_values(algo, batch.observations)

    return mean(measured(algo, episodes, window_size, value, first_only=True))


def soft_opc_scorer(return_threshold: float) -> Callable[..., float]:
    """Make a scorer for soft off-policy classification (Irpan et al. 2019, arXiv:1906.01624).

    The score is the mean of Q(s, a) over successful episodes minus the mean of Q(s, a) over all episodes. The scorer
    raises a ValueError if no episode is successful.

    Args:
        return_threshold: An episode is successful if its return is larger than this value.

    Returns:
        Function that is called as `scorer(algo, episodes, window_size=1024)`.
    """

    def scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
        episodes = scored_episodes(episodes)
        value = measured(algo, episodes, window_size, lambda batch: _values(algo, batch.observations, batch.actions))
        returns = [episode.compute_return() for episode in episodes]
        success = np.repeat(np.array(returns) > return_threshold, [len(episode) for episode in episodes])
        if not success.any():
            raise ValueError(f"return_threshold: got {return_threshold}, but no return is above {max(returns)}")
        return mean(value[success]) - mean(value)

    return scorer


def continuous_action_diff_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared distance between recorded and greedy actions. Squares are summed over dimensions.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.

    Raises:
        TypeError: If the episodes have discrete actions.
    """

    def distance(batch: Any) -> Any:
        if has_discrete_actions(batch):
            raise TypeError("the episodes have discrete actions: use discrete_action_match_scorer")
        return squared_distance(batch.actions, algo.predict(batch.observations))

    return -mean(measured(algo, episodes, window_size, distance))


def discrete_action_match_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """The fraction of steps in which the greedy action equals the recorded action.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.

    Raises:
        TypeError: If the episodes have continuous actions.
    """

    def match(batch: Any) -> Any:
        if not has_discrete_actions(batch):
            raise TypeError("the episodes have continuous actions: use continuous_action_diff_scorer")
        return batch.actions == np.reshape(algo.predict(batch.observations), batch.actions.shape)

    return mean(measured(algo, episodes, window_size, match))


def dynamics_observation_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared error of the predicted next observations. Squares are summed over dimensions.

    Transitions are skipped if their next observation is a terminal state that was not recorded.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def error(batch: Any) -> Any:
        predicted = _predicted(dynamics, batch)[0]
        return squared_distance(batch.next_observations, predicted)

    return -mean(measured(dynamics, episodes, window_size, error, told_next=True))


def dynamics_reward_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean squared error of the predicted rewards.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def error(batch: Any) -> Any:
        predicted = _predicted(dynamics, batch)[1]
        return squared_distance(batch.action_rewards, np.reshape(predicted, (-1, 1)))

    return -mean(measured(dynamics, episodes, window_size, error))


def dynamics_prediction_variance_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Minus the mean variance of a dynamics model's predictions.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def variance(batch: Any) -> Any:
        return _predicted(dynamics, batch, with_variance=True)[2]

    return -mean(measured(dynamics, episodes, window_size, variance))


def squared_distance(a: Any, b: Any) -> Any:
    """Squared differences, summed over all axes except the first, [B].

    Raises:
        ValueError: If the shapes differ.
    """
    if np.shape(a) != np.shape(b):
        raise ValueError(f"got {np.shape(b)} predictions for values of shape {np.shape(a)}")
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    return (difference.reshape(len(difference), -1) ** 2).sum(1)


def _predicted(dynamics: Any, batch: Any, **options: Any) -> Any:
    """The predictions of a dynamics model for a minibatch.

    Raises:
        TypeError: If `dynamics` is not a dynamics model.
    """
    pair = batch.observations, batch.actions
    try:
        inspect.signature(dynamics.predict).bind(*pair, **options)
    except TypeError:
        expected = "a dynamics model with predict(x, action, with_variance), such as a MOPO"
        raise TypeError(f"dynamics is {type(dynamics).__name__}, expected {expected}") from None
    return dynamics.predict(*pair, **options)


def _learnt_rewards(algo: Any, rewards: Any) -> Any:
    """Return the rewards, scaled by the `reward_scaler` of the algorithm if it is not None."""
    scaler = getattr(algo, "reward_scaler", None)
    return rewards if scaler is None else scaler.transform(torch.as_tensor(rewards)).numpy()


def _values(algo: Any, observations: Any, actions: Any) -> Any:
    return np.asarray(algo.predict_value(observations, actions), np.float64).reshape(len(observations))


def _greedy_values(algo: Any, observations: Any) -> Any:
    return _values(algo, observations, algo.predict(observations))
