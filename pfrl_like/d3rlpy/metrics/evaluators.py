"""Evaluators of algorithms on datasets and in environments, with the formulas of d3rlpy 2.8.1.

An evaluator is called as `evaluator(algo, dataset)` at the end of each epoch. Its number is a plain mean: errors and
differences are positive, unlike the scores of `pfrl_like.metrics`, where larger is better. The transitions are those
that `dataset.transition_picker` makes, up to 1024 of one episode at a time.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pfrl_like.d3rlpy.dataset import EpisodeBase, ReplayBufferBase, TransitionMiniBatch
from pfrl_like.d3rlpy.interface import QLearningAlgoProtocol
from pfrl_like.metrics.scorer import evaluate_on_environment, scaled_rewards, squared_distance

#: Number of transitions in a minibatch.
WINDOW_SIZE = 1024

Array = NDArray[Any]


class EvaluatorProtocol(Protocol):
    """Interface of evaluators."""

    @abstractmethod
    def __call__(self, algo: QLearningAlgoProtocol, dataset: ReplayBufferBase) -> float:
        """Return the metric.

        Args:
            algo: Algorithm with `predict` and `predict_value`.
            dataset: `ReplayBuffer` with the episodes of the training.
        """


class WindowEvaluator(EvaluatorProtocol):
    """Base class of evaluators that return the mean of numbers computed from windows of transitions.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.

    Raises:
        TypeError: If an item is no episode of `pfrl_like.d3rlpy.dataset`.
    """

    def __init__(self, episodes: Sequence[EpisodeBase] | None = None) -> None:
        for each in episodes or ():
            if not hasattr(each, "transition_count"):
                raise TypeError(f"episodes has a {type(each).__name__}, expected episodes of pfrl_like.d3rlpy.dataset")
        self._episodes = episodes

    def __call__(self, algo: QLearningAlgoProtocol, dataset: ReplayBufferBase) -> float:
        """Return the mean over all transitions.

        Raises:
            TypeError: If `dataset` is no dataset of `pfrl_like.d3rlpy.dataset`.
        """
        windows = [window for each in self._episodes_of(dataset) for window in _windows(each, dataset)]
        return _mean([self._evaluate(algo, window) for window in windows])

    def _episodes_of(self, dataset: ReplayBufferBase) -> Sequence[EpisodeBase]:
        if not hasattr(dataset, "transition_picker"):
            expected = "a ReplayBuffer of pfrl_like.d3rlpy.dataset: pfrl_like.metrics scores other datasets"
            raise TypeError(f"dataset is {type(dataset).__name__}, expected {expected}")
        return self._episodes or dataset.episodes

    @abstractmethod
    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        """Return the numbers of a window, [B] or fewer."""


def _windows(episode: EpisodeBase, dataset: ReplayBufferBase) -> Iterator[TransitionMiniBatch]:
    """Yield the transitions of an episode in windows."""
    for start in range(0, episode.transition_count, WINDOW_SIZE):
        indices = range(start, min(start + WINDOW_SIZE, episode.transition_count))
        yield TransitionMiniBatch.from_transitions([dataset.transition_picker(episode, index) for index in indices])


def _mean(parts: Sequence[Any]) -> float:
    """Return the mean of all numbers; NaN if there are none."""
    values = np.concatenate([np.zeros(0), *parts])
    return float(values.mean()) if len(values) else float("nan")


def _greedy_values(algo: QLearningAlgoProtocol, observations: Any) -> Array:
    return np.asarray(algo.predict_value(observations, algo.predict(observations)))


class TDErrorEvaluator(WindowEvaluator):
    """Mean squared TD error, (Q(s, a) - (r + gamma * Q(s', greedy action)))^2.

    After terminal transitions Q(s', .) is 0. Rewards are scaled if the algorithm has a `reward_scaler`. `gamma` is not
    raised to the interval of multi-step transitions, as in d3rlpy 2.8.1.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        rewards = scaled_rewards(algo, window.rewards.reshape(-1))
        next_values = _greedy_values(algo, window.next_observations) * (1.0 - window.terminals[:, 0])
        values = algo.predict_value(window.observations, window.actions)
        return (values - (rewards + algo.gamma * next_values)) ** 2


class DiscountedSumOfAdvantageEvaluator(WindowEvaluator):
    """Mean discounted sum of advantages, Q(s, a) - Q(s, greedy action), from a transition to the end of its window.

    The number is small if the recorded actions have smaller values than the greedy actions (Murphy 2005, "A
    generalization error for Q-learning").

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        values = algo.predict_value(window.observations, window.actions)
        advantages = (values - _greedy_values(algo, window.observations)).tolist()
        return list(accumulate(reversed(advantages), lambda later, advantage: advantage + algo.gamma * later))


class AverageValueEstimationEvaluator(WindowEvaluator):
    """Mean of Q(s, greedy action). The number is large if a Q-function overestimates.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return _greedy_values(algo, window.observations)


class InitialStateValueEstimationEvaluator(WindowEvaluator):
    """Mean of Q(s, greedy action) in the first state of each window (Paine et al. 2020, arXiv:2007.09055).

    An episode of up to 1024 transitions is one window.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        observations = window.observations
        first = [each[:1] for each in observations] if isinstance(observations, list) else observations[:1]
        return _greedy_values(algo, first)


class SoftOPCEvaluator(WindowEvaluator):
    """Mean of Q(s, a) over successful episodes minus the mean over all episodes (Irpan et al. 2019, arXiv:1906.01624).

    The number is NaN if no episode is successful.

    Args:
        return_threshold: An episode is successful if its return is at least this value.
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def __init__(self, return_threshold: float, episodes: Sequence[EpisodeBase] | None = None) -> None:
        super().__init__(episodes)
        self._return_threshold = return_threshold

    def __call__(self, algo: QLearningAlgoProtocol, dataset: ReplayBufferBase) -> float:
        """Return the difference of the means."""
        successes, values = [], []
        for episode in self._episodes_of(dataset):
            of_episode = [self._evaluate(algo, window) for window in _windows(episode, dataset)]
            values += of_episode
            successes += of_episode if episode.compute_return() >= self._return_threshold else []
        return _mean(successes) - _mean(values)

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return algo.predict_value(window.observations, window.actions)


class ContinuousActionDiffEvaluator(WindowEvaluator):
    """Mean squared distance between recorded and greedy actions, summed over dimensions.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return squared_distance(window.actions, algo.predict(window.observations))


class DiscreteActionMatchEvaluator(WindowEvaluator):
    """Fraction of transitions whose recorded action is the greedy action.

    Args:
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return _matches(window.actions.reshape(-1), algo.predict(window.observations))


class _ComparisonEvaluator(WindowEvaluator):
    """Base class of evaluators that compare the greedy actions of two algorithms."""

    def __init__(self, base_algo: QLearningAlgoProtocol, episodes: Sequence[EpisodeBase] | None = None) -> None:
        super().__init__(episodes)
        self._base_algo = base_algo

    def _actions(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> tuple[Any, Any]:
        return self._base_algo.predict(window.observations), algo.predict(window.observations)


class CompareContinuousActionDiffEvaluator(_ComparisonEvaluator):
    """Mean squared distance between the greedy actions of two algorithms, summed over dimensions.

    Args:
        base_algo: Algorithm that the evaluated algorithm is compared with.
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return squared_distance(*self._actions(algo, window))


class CompareDiscreteActionMatchEvaluator(_ComparisonEvaluator):
    """Fraction of states in which two algorithms have the same greedy action.

    Args:
        base_algo: Algorithm that the evaluated algorithm is compared with.
        episodes: Episodes to evaluate. If None or empty, those of the dataset are used.
    """

    def _evaluate(self, algo: QLearningAlgoProtocol, window: TransitionMiniBatch) -> Any:
        return _matches(*self._actions(algo, window))


def _matches(actions: Any, predicted: Any) -> Any:
    """Return True where two discrete actions are equal, [B].

    Raises:
        TypeError: If the actions are continuous.
    """
    if np.ndim(predicted) != 1:
        raise TypeError(
            f"predict gives shape {np.shape(predicted)}, expected discrete actions: use an evaluator of differences"
        )
    return np.equal(actions, predicted)


class EnvironmentEvaluator(EvaluatorProtocol):
    """Mean undiscounted return in an environment. The random streams are restored after the episodes.

    Args:
        env: Environment that `pfrl_like.env.as_gymnasium` accepts, or an environment id.
        n_trials: Number of episodes.
        epsilon: Probability of a random action.

    Raises:
        ValueError: If `n_trials` is less than 1, or `epsilon` is not between 0 and 1.
        TypeError: If `env` is no environment.
    """

    def __init__(self, env: Any, n_trials: int = 10, epsilon: float = 0.0) -> None:
        self._scorer = evaluate_on_environment(env, n_trials, epsilon)

    def __call__(self, algo: QLearningAlgoProtocol, dataset: ReplayBufferBase) -> float:
        """Return the mean return. The dataset is ignored."""
        return self._scorer(algo)
