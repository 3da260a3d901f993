"""Explorers with d3rlpy's interface; the method `for_actions` returns an equivalent explorer for agents."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from pfrl_like import explorers
from pfrl_like.explorer import Explorer
from pfrl_like.utils.env_values import space_kind
from pfrl_like.utils.random import RandomSource
from pfrl_like.utils.reprs import never_raising, with_arguments


class OnlineExplorer(ABC):
    """Interface of explorers that choose the training actions of an algorithm."""

    @never_raising
    def __repr__(self) -> str:
        return with_arguments(self)

    @abstractmethod
    def sample(self, algo: Any, x: Any, step: int) -> Any:
        """Return an action for one observation.

        Args:
            algo: Algorithm with `predict`. For discrete actions it also needs `action_size_`, or an `impl` with
                `action_size`.
            x: The observation, [...], without a batch axis.
            step: Number of steps so far.
        """

    @abstractmethod
    def for_actions(self, space: Any) -> Explorer:
        """Return an equivalent explorer for agents with the action space `space`.

        Raises:
            TypeError: If the explorer supports only the other kind of actions.
        """

    def _check(self, space: Any, kind: str) -> None:
        if space_kind(space) != kind:
            expected = {"discrete": "Discrete", "box": "a Box"}[kind]
            raise TypeError(f"explorer is {type(self).__name__}, which needs actions that are {expected}, got {space}")


class ConstantEpsilonGreedy(OnlineExplorer):
    """Epsilon-greedy exploration with a constant epsilon.

    Args:
        epsilon: Probability of a random action, sampled uniformly.
        rng: NumPy generator; None uses the global NumPy generator.

    Raises:
        ValueError: If `epsilon` is not in [0, 1].
    """

    def __init__(self, epsilon: float, *, rng: RandomSource = None) -> None:
        self.epsilon, self.rng = epsilon, rng
        self._explorer_for(2)  # checks the arguments

    def sample(self, algo: Any, x: Any, step: int = 0) -> Any:
        """Return an action for one observation."""
        return int(self._explorer_for(_action_size(algo)).select_action(step, lambda: _greedy(algo, x)))

    def for_actions(self, space: Any) -> explorers.ConstantEpsilonGreedy:
        self._check(space, "discrete")
        return self._explorer_for(int(space.n), int(getattr(space, "start", 0)))

    def _explorer_for(self, n: int, start: int = 0) -> explorers.ConstantEpsilonGreedy:
        return explorers.ConstantEpsilonGreedy(self.epsilon, _random_action(self.rng, n, start), rng=self.rng)


class LinearDecayEpsilonGreedy(OnlineExplorer):
    """Epsilon-greedy exploration. Epsilon decays linearly and is then constant.

    Args:
        start_epsilon: Epsilon at step 0.
        end_epsilon: Epsilon from step `duration` on.
        duration: Number of steps of the decay.
        rng: NumPy generator; None uses the global NumPy generator.

    Raises:
        ValueError: If an epsilon is not in [0, 1], or `duration` is negative.
    """

    def __init__(
        self, start_epsilon: float = 1.0, end_epsilon: float = 0.1, duration: int = 1000000, *, rng: RandomSource = None
    ) -> None:
        self.start_epsilon, self.end_epsilon, self.duration, self.rng = start_epsilon, end_epsilon, duration, rng
        self._explorer_for(2)  # checks the arguments

    def compute_epsilon(self, step: int) -> float:
        """Return epsilon after `step` steps."""
        return self._explorer_for(2).compute_epsilon(step)

    def sample(self, algo: Any, x: Any, step: int) -> Any:
        """Return an action for one observation; `step` is the number of training steps so far."""
        return int(self._explorer_for(_action_size(algo)).select_action(step, lambda: _greedy(algo, x)))

    def for_actions(self, space: Any) -> explorers.LinearDecayEpsilonGreedy:
        self._check(space, "discrete")
        return self._explorer_for(int(space.n), int(getattr(space, "start", 0)))

    def _explorer_for(self, n: int, start: int = 0) -> explorers.LinearDecayEpsilonGreedy:
        action = _random_action(self.rng, n, start)
        epsilons = self.start_epsilon, self.end_epsilon
        return explorers.LinearDecayEpsilonGreedy(*epsilons, self.duration, action, rng=self.rng)


class NormalNoise(OnlineExplorer):
    """Exploration that adds Gaussian noise to an action sampled from the policy, and clips the result to [-1, 1].

    Algorithms without `sample_action` get noise on their greedy actions.

    Args:
        mean: Mean of the noise.
        std: Standard deviation of the noise.
        rng: NumPy generator; None uses the global NumPy generator.

    Raises:
        ValueError: If `std` is negative.
    """

    def __init__(self, mean: float = 0.0, std: float = 0.1, *, rng: RandomSource = None) -> None:
        self.mean, self.std, self.rng = mean, std, rng
        self._noise = _ShiftedGaussian(mean, std, -1.0, 1.0, rng=rng)

    def sample(self, algo: Any, x: Any, *args: Any) -> Any:
        """Return a sampled action for one observation, with noise added."""
        sample = getattr(algo, "sample_action", algo.predict)
        return self._noise.select_action(0, lambda: sample(np.asarray(x)[None])[0])

    def for_actions(self, space: Any) -> explorers.AdditiveGaussian:
        self._check(space, "box")
        return _ShiftedGaussian(self.mean, self.std, space.low, space.high, rng=self.rng)


class _ShiftedGaussian(explorers.AdditiveGaussian):
    """Gaussian noise with the mean `mean`; the noise of `AdditiveGaussian` has mean 0."""

    def __init__(self, mean: float, scale: float, low: Any, high: Any, *, rng: RandomSource) -> None:
        super().__init__(scale, low, high, rng=rng)
        self.mean = mean

    def _add_noise(self, actions: Any) -> Any:
        return super()._add_noise(actions + np.float32(self.mean))


def _random_action(rng: RandomSource, n: int, start: int) -> Callable[[], int]:
    """Return a function that samples one of n actions from `start` on."""
    source: Any = np.random if rng is None else rng
    return lambda: start + int(source.random() * n)


def _action_size(algo: Any) -> int:
    """Return the number of discrete actions of an algorithm, or of its agent `impl`."""
    size = getattr(algo, "action_size_", None)
    return int(algo.impl.action_size if size is None else size)


def _greedy(algo: Any, x: Any) -> Any:
    return algo.predict(np.asarray(x)[None])[0]
