"""Scorers of algorithms and of dynamics models on episodes.

A larger score is better. Scores of errors and variances are therefore negative. An algorithm is an object with
`predict`, `predict_value` and `gamma`. A dynamics model is an object with `predict(x, action, with_variance)`. Scorers
process `window_size` transitions at a time, which limits the memory. The score does not depend on `window_size`.
"""

import functools
import inspect
from collections import deque
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Tuple
from numpy.typing import NDArray

from pfrl_like.batch import ACTION_MASK, first_leaf
from pfrl_like.dataset import Episode, TransitionMiniBatch
from pfrl_like.dataset.episode import as_episodes
from pfrl_like.dataset.transition import Transitions
from pfrl_like.env import as_gymnasium
from pfrl_like.envs.make_env import open_env
from pfrl_like.functions.returns import lambda_returns
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.env_values import required_keyword, sample_allowed


def check_scored(algo: Any) -> None:
    """Check that an object has `predict`, which the scorers call. Agents have no `predict`.

    Raises:
        TypeError: If the object has no `predict`. The message contains the class of the object and the functions that
            score agents.
    """
    if not hasattr(algo, "predict"):
        expected = "an object with predict: experiments.eval_performance and ope.evaluate_offline score agents"
        raise TypeError(f"algo is {type(algo).__name__}, expected {expected}")


def check_not_episodes(call: str, argument: Any) -> None:
    """Check that the user did not pass a function that returns scorers in place of a scorer.

    Args:
        call: Correct call of the function, such as "evaluate_on_environment(env)".
        argument: Second argument of the function, which must be a number. If the function is called as a scorer, this
            argument is the episodes.

    Raises:
        TypeError: If `argument` is a collection or None, which are the episodes of a scorer.
    """
    if argument is None or (isinstance(argument, Iterable) and not isinstance(argument, str)):
        name = call.partition("(")[0]
        raise TypeError(f"{name} was called like a scorer, but it returns a scorer: pass {call} instead")


def evaluate_on_environment(
    env: Any, n_trials: int = 10, epsilon: float = 0.0, render: bool = False
) -> Callable[..., float]:
    """Return a scorer of the mean undiscounted return of episodes in an environment.

    The scorer restores the random streams after the episodes. If `info` of the environment contains an "action_mask",
    random actions are allowed actions, and `algo.predict` gets the mask as the keyword `action_mask`, [1, n_actions].
    An estimator with `target_return`, a Decision Transformer, acts with its `as_stateful_wrapper()`.

    Args:
        env: Environment with any interface that `pfrl_like.env.as_gymnasium` accepts, or an environment id. With an id,
            the scorer makes a new environment at each call. If the observation space is a `Tuple`, `algo.predict` gets
            a list with one array per part, [1, ...].
        n_trials: Number of episodes.
        epsilon: Probability of a random action.
        render: True to call `env.render()` after each step.

    Returns:
        Function that is called as `scorer(algo)` or `scorer(algo, episodes)`. The function ignores the episodes.

    Raises:
        ValueError: If `n_trials` is less than 1, or if `epsilon` is not between 0 and 1.
        TypeError: If `n_trials` or `epsilon` is not a number, or if `env` is a vector environment or no environment.
            The scorer raises a TypeError if `env` has an action mask and `algo.predict` does not accept `action_mask`.
    """
    check_not_episodes("evaluate_on_environment(env)", n_trials)
    check_counts(n_trials=n_trials)
    check_numbers(0, 1, epsilon=epsilon)
    with open_env(env) as first:
        as_gymnasium(first)

    def scorer(algo: Any, *args: Any) -> float:
        check_scored(algo)
        with open_env(env) as opened, isolated_rng(opened):
            adapted = as_gymnasium(opened)
            return float(np.mean([_return_of_episode(adapted, algo, epsilon, render) for _ in range(n_trials)]))

    return scorer


def _return_of_episode(env: Any, algo: Any, epsilon: float, render: bool) -> float:
    obs, info = env.reset()
    frames = LastFrames(getattr(algo, "n_frames", 1))
    wrapper = algo.as_stateful_wrapper() if hasattr(algo, "target_return") else None
    total, reward, ended = 0.0, 0.0, False
    while not ended:
        stack = frames.push(obs)
        mask = info.get(ACTION_MASK)
        explores = np.random.random() < epsilon
        if wrapper is not None:
            action = wrapper.predict(stack, reward, action_mask=mask)
        elif not explores:
            action = _greedy_action(algo, _batch_of_one(env.observation_space, stack), mask)
        if explores:
            action = sample_allowed(env.action_space, mask)
            if wrapper is not None:
                wrapper.set_action(action)
        obs, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        ended = terminated or truncated
        if render:
            env.render()
    return total


def _batch_of_one(space: Any, obs: Any) -> Any:
    """Return an observation with a batch axis, a list of arrays for a `Tuple` space."""
    return [np.asarray(each)[None] for each in obs] if isinstance(space, Tuple) else np.asarray(obs)[None]


def _greedy_action(algo: Any, batch: Any, mask: Any) -> Any:
    keywords = required_keyword(algo.predict, None if mask is None else np.asarray(mask)[None])
    action = algo.predict(batch, **keywords)[0]
    return action.item() if np.ndim(action) == 0 else action


class LastFrames:
    """Stacks the last images of an episode along the first axis. Missing images at the beginning are zeros.

    Args:
        n_frames: Number of images in a stack. Observations that do not have three axes are no images and are not
            stacked.
    """

    def __init__(self, n_frames: int) -> None:
        self._n_frames = n_frames
        self._frames: deque[NDArray[Any]] = deque(maxlen=n_frames)

    def push(self, obs: Any) -> Any:
        """Add an observation and return the stack, in which this observation is the last one."""
        if self._n_frames == 1 or np.ndim(obs) != 3:
            return obs
        frame = np.array(obs)
        missing = self._n_frames - 1 - len(self._frames)
        self._frames.extend([*[np.zeros_like(frame)] * missing, frame])
        return np.concatenate(self._frames)


def scored_episodes(episodes: Any) -> list[Episode]:
    """Return a list of the episodes in a dataset or an iterable.

    Raises:
        ValueError: If the episodes contain no transition.
        TypeError: If an item is not an episode.
    """
    if episodes is None:
        raise TypeError("episodes is None, expected episodes or a dataset: pass eval_episodes to fit")
    return as_episodes(episodes)


def evaluate(
    model: Any,
    episodes: Iterable[Episode],
    window_size: int,
    function: Callable[[TransitionMiniBatch], Any],
    *,
    first_only: bool = False,
    recorded_next: bool = False,
) -> NDArray[Any]:
    """Return the results of `function` for all transitions, in the order of the episodes, [N, ...].

    Args:
        model: Algorithm or dynamics model. Its attribute `n_frames`, if it exists, is the number of images in a stack.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
        function: Function that takes a minibatch and returns a value for each transition, [B, ...].
        first_only: True to use only the first transition of each episode.
        recorded_next: True to skip transitions whose next observation is a terminal state that was not recorded.

    Raises:
        ValueError: If the episodes contain no transition, or if `window_size` is less than 1.
        TypeError: If an item is not an episode, or if `model` has no `predict`.
    """
    check_scored(model)
    check_counts(window_size=window_size)
    results = []
    for _, group in groupby(scored_episodes(episodes), key=lambda episode: id(episode.table)):
        same_table = list(group)
        table, action_size = same_table[0].table, same_table[0].get_action_size()
        all_rows = np.concatenate([episode.steps[: 1 if first_only else None] for episode in same_table])
        all_rows = all_rows[np.isin(all_rows, table.steps_with_next_obs)] if recorded_next else all_rows
        for start in range(0, len(all_rows), window_size):  # one minibatch at a time, to save memory
            rows = all_rows[start : start + window_size]
            steps = Transitions(table, rows, action_size)
            batch = TransitionMiniBatch.of_rows(steps, table, rows, getattr(model, "n_frames", 1))
            results.append(np.asarray(function(batch)))
    if not results:
        raise ValueError("no transition of the episodes has a recorded next observation")
    return np.concatenate(results)


def mean(values: Any) -> float:
    """Return the mean, computed in float64."""
    return float(np.mean(values, dtype=np.float64))


def td_error_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean squared TD error, (Q(s, a) - (r + gamma * Q(s', greedy action)))^2.

    r is the reward of the action a. If the algorithm has a `reward_scaler`, r is scaled with it, as in training.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def squared_error(batch: Any) -> Any:
        target = scaled_rewards(algo, batch.action_rewards[:, 0])
        target = target + _greedy_values(algo, batch.next_observations) * algo.gamma * (batch.terminals[:, 0] == 0)
        return (_values(algo, batch.observations, batch.actions) - target) ** 2

    return -mean(evaluate(algo, episodes, window_size, squared_error))


def discounted_sum_of_advantage_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative discounted sum of advantages from a step to the end of its episode, averaged over all steps.

    The advantage of a step is Q(s, a) - Q(s, greedy action) (Murphy 2005, "A generalization error for Q-learning").
    The score is large if the recorded actions have smaller values than the greedy actions.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def advantage_of(batch: Any) -> Any:
        return _values(algo, batch.observations, batch.actions) - _greedy_values(algo, batch.observations)

    episodes = scored_episodes(episodes)
    advantage = torch.from_numpy(evaluate(algo, episodes, window_size, advantage_of))
    continues = torch.ones(len(advantage), dtype=torch.bool)
    continues[np.cumsum([len(episode) for episode in episodes if len(episode)]) - 1] = False
    discount = torch.full_like(advantage, algo.gamma)
    sums = lambda_returns(advantage, discount, torch.zeros_like(advantage), continues, lambd=1.0)
    return -float(sums.mean())


def average_value_estimation_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean of Q(s, greedy action). The score is low if a Q-function overestimates.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """
    return -mean(evaluate(algo, episodes, window_size, lambda batch: _greedy_values(algo, batch.observations)))


def value_estimation_std_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative standard deviation of Q(s, greedy action) over the critics, averaged over all states.

    The score is most informative for algorithms with many critics and `bootstrap=True`.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def deviation(batch: Any) -> Any:
        return algo.predict_value(batch.observations, algo.predict(batch.observations), with_std=True)[1]

    return -mean(evaluate(algo, episodes, window_size, deviation))


def initial_state_value_estimation_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the mean of Q(s, greedy action) in the first states of episodes (Paine et al. 2020, arXiv:2007.09055).

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of first states in a minibatch.
    """
    values = functools.partial(evaluate, algo, episodes, window_size, first_only=True)
    return mean(values(lambda batch: _greedy_values(algo, batch.observations)))


def soft_opc_scorer(return_threshold: float) -> Callable[..., float]:
    """Return a scorer for soft off-policy classification (Irpan et al. 2019, arXiv:1906.01624).

    The score is the mean of Q(s, a) over successful episodes minus the mean of Q(s, a) over all episodes. The scorer
    raises a ValueError if no episode is successful.

    Args:
        return_threshold: An episode is successful if its return is larger than this value.

    Returns:
        Function that is called as `scorer(algo, episodes, window_size=1024)`.
    """

    def scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
        episodes = scored_episodes(episodes)
        value = evaluate(algo, episodes, window_size, lambda batch: _values(algo, batch.observations, batch.actions))
        returns = [episode.compute_return() for episode in episodes]
        success = np.repeat(np.array(returns) > return_threshold, [len(episode) for episode in episodes])
        if not success.any():
            raise ValueError(f"return_threshold: got {return_threshold}, but no return is above {max(returns)}")
        return mean(value[success]) - mean(value)

    return scorer


def continuous_action_diff_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean squared distance between recorded and greedy actions, summed over dimensions.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.

    Raises:
        TypeError: If the episodes have discrete actions.
    """

    def distance(batch: Any) -> Any:
        if batch.actions.ndim == 1:
            raise TypeError("the episodes have discrete actions: use discrete_action_match_scorer")
        return squared_distance(batch.actions, algo.predict(batch.observations))

    return -mean(evaluate(algo, episodes, window_size, distance))


def discrete_action_match_scorer(algo: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the fraction of steps in which the greedy action equals the recorded action.

    Args:
        algo: Algorithm to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.

    Raises:
        TypeError: If the episodes have continuous actions.
    """

    def match(batch: Any) -> Any:
        if batch.actions.ndim > 1:
            raise TypeError("the episodes have continuous actions: use continuous_action_diff_scorer")
        return batch.actions == np.reshape(algo.predict(batch.observations), batch.actions.shape)

    return mean(evaluate(algo, episodes, window_size, match))


def dynamics_observation_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean squared error of the predicted next observations, summed over dimensions.

    A transition is skipped if its next observation is a terminal state that was not recorded.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def error(batch: Any) -> Any:
        return squared_distance(batch.next_observations, _predicted(dynamics, batch)[0])

    return -mean(evaluate(dynamics, episodes, window_size, error, recorded_next=True))


def dynamics_reward_prediction_error_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean squared error of the predicted rewards.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """

    def error(batch: Any) -> Any:
        return squared_distance(batch.action_rewards, np.reshape(_predicted(dynamics, batch)[1], (-1, 1)))

    return -mean(evaluate(dynamics, episodes, window_size, error))


def dynamics_prediction_variance_scorer(dynamics: Any, episodes: Any, window_size: int = 1024) -> float:
    """Return the negative mean variance of a dynamics model's predictions.

    Args:
        dynamics: Dynamics model to score.
        episodes: Episodes, or a dataset.
        window_size: Number of transitions in a minibatch.
    """
    options = {"with_variance": True}
    return -mean(evaluate(dynamics, episodes, window_size, lambda batch: _predicted(dynamics, batch, **options)[2]))


def squared_distance(a: Any, b: Any) -> Any:
    """Return the squared differences, summed over all axes except the first, [B].

    Raises:
        ValueError: If the shapes differ.
    """
    if np.shape(a) != np.shape(b):
        raise ValueError(f"predictions have shape {np.shape(b)}, expected {np.shape(a)} as the recorded values")
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    return (difference.reshape(len(difference), -1) ** 2).sum(1)


def _predicted(dynamics: Any, batch: Any, **options: Any) -> Any:
    """Return the predictions of a dynamics model for a minibatch.

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


def scaled_rewards(algo: Any, rewards: Any) -> Any:
    """Return the rewards, scaled by the `reward_scaler` of the algorithm if it is not None."""
    scaler = getattr(algo, "reward_scaler", None)
    return rewards if scaler is None else scaler.transform(torch.as_tensor(rewards)).numpy()


def _values(algo: Any, observations: Any, actions: Any) -> Any:
    return np.asarray(algo.predict_value(observations, actions), np.float64).reshape(len(first_leaf(observations)))


def _greedy_values(algo: Any, observations: Any) -> Any:
    return _values(algo, observations, algo.predict(observations))
