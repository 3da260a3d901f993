"""Epsilon-greedy explorers, with a constant or a decaying epsilon, and the base class of random explorers."""

from abc import abstractmethod
from collections.abc import Callable
from logging import DEBUG, Logger, getLogger
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.explorer import Explorer
from pfrl_like.random_streams.streams import get_rng_state, plain_state, set_rng_state
from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.old_names import old_names
from pfrl_like.utils.random import RandomSource, check_rng

_LOGGER = getLogger(__name__)
#: Function that returns a random action.
RandomAction = Callable[[], Any]


class RandomExplorer(Explorer):
    """Base class of explorers that use random numbers.

    Args:
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        TypeError: If `rng` is neither a NumPy generator nor None.
    """

    def __init__(self, rng: RandomSource = None) -> None:
        check_rng(rng)
        self.rng = rng

    @property
    def _source(self) -> Any:
        """Object with the methods `random` and `normal`: `rng`, or NumPy's global generator."""
        return np.random if self.rng is None else self.rng

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the generator `rng`. The dict is empty if `rng` is None."""
        return {} if self.rng is None else {"rng": plain_state(get_rng_state(self.rng))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            ValueError: If the state was saved by an explorer of a different class, or if only one of the saved and this
                explorer has an `rng`.
        """
        state = dict(state)
        rng = state.pop("rng", None)
        super().load_state_dict(state)
        set_rng_state(self.rng, rng)


def active_rows(active: Any, k: int) -> NDArray[np.int64]:
    """Return the indices of the active environments, from 0 to k - 1; all indices if `active` is None."""
    return np.arange(k) if active is None else np.flatnonzero(active)


def continuous(explorer: Explorer, greedy_actions: Any) -> NDArray[Any]:
    """Return the greedy actions as a floating-point array, to which noise can be added.

    Raises:
        TypeError: If the greedy actions are not floating-point numbers.
    """
    actions = np.asarray(greedy_actions)
    if actions.dtype.kind != "f":
        expected = "floating-point actions: for discrete actions use an epsilon-greedy explorer or Boltzmann"
        raise TypeError(f"{type(explorer).__name__}: greedy actions have dtype {actions.dtype}, expected {expected}")
    return actions


class EpsilonGreedy(RandomExplorer):
    """Base class of explorers that select a random action with probability epsilon, otherwise the greedy action.

    If the action value has an `action_mask`, a random action is sampled uniformly from the allowed actions, and
    `random_action_func` is not called.

    Args:
        epsilon: Initial value of epsilon, from 0 to 1.
        random_action_func: Function without arguments that returns a random action.
        logger: Logger to which each selected action is logged, at level DEBUG.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Attributes:
        epsilon: Value of epsilon at the latest call of `select_action` or `select_actions`.
    """

    reads_action_value = False

    def __init__(self, epsilon: float, random_action_func: RandomAction, logger: Logger, rng: RandomSource) -> None:
        super().__init__(rng)
        if not callable(random_action_func):
            raise TypeError(f"random_action_func is {random_action_func!r}, expected a function without arguments")
        self.epsilon, self.random_action_func, self.logger = epsilon, random_action_func, logger

    @abstractmethod
    def compute_epsilon(self, t: int) -> float:
        """Return epsilon for step t."""

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return a random action with probability epsilon, otherwise the greedy action."""
        self.epsilon = self.compute_epsilon(t)
        explores = self._source.random() < self.epsilon
        action = self._random_action(action_value, 0) if explores else greedy_action_func()
        if self.logger.isEnabledFor(DEBUG):
            self.logger.debug("t:%s a:%s %s", t, action, "non-greedy" if explores else "greedy")
        return action

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return an action for each of k environments. Call `random_action_func` only if an environment explores."""
        self.epsilon = self.compute_epsilon(t)
        n_draws = len(greedy_actions) if active is None else np.count_nonzero(active)
        explores = (self._source.random(n_draws) < self.epsilon).nonzero()[0]
        if active is not None:
            explores = np.flatnonzero(active)[explores]
        actions = greedy_actions
        if len(explores):
            actions = np.array(greedy_actions)
            for i in explores:
                action = self._random_action(action_value, i)
                _check_random_action(action, actions)
                actions[i] = action
        if self.logger.isEnabledFor(DEBUG):
            self.logger.debug("t:%s a:%s non-greedy:%s", t, actions, explores)
        return actions

    def _random_action(self, action_value: Any, i: int) -> Any:
        mask = getattr(action_value, "action_mask", None)
        if mask is None:
            return self.random_action_func()
        allowed: NDArray[np.int64] = np.flatnonzero(mask[i].cpu().numpy())
        if len(allowed) == 0:
            allowed = np.arange(mask.shape[1])
        return allowed[int(self._source.random() * len(allowed))]


def _check_random_action(action: Any, actions: NDArray[Any]) -> None:
    """Raise ValueError if a random action does not have the shape and dtype of a greedy action."""
    kind = np.min_scalar_type(action)
    if np.shape(action) != actions.shape[1:] or not np.can_cast(kind, actions.dtype, "same_kind"):
        expected = f"one action of shape {actions.shape[1:]}, {actions.dtype}, like the greedy action"
        hint = "for a vector environment pass single_action_space.sample"
        raise ValueError(f"random_action_func returned {action!r:.80}, expected {expected}: {hint}")


class ConstantEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy explorer with a constant epsilon.

    Args:
        epsilon: Probability of a random action. You may change the attribute `epsilon` at any time.
        random_action_func: Function without arguments that returns a random action.
        logger: Logger to which each selected action is logged, at level DEBUG.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        ValueError: If `epsilon` is not from 0 to 1.
        TypeError: If `random_action_func` is not callable.
    """

    def __init__(
        self, epsilon: float, random_action_func: RandomAction, logger: Logger = _LOGGER, *, rng: RandomSource = None
    ) -> None:
        super().__init__(_probability("epsilon", epsilon), random_action_func, logger, rng)

    def compute_epsilon(self, t: int) -> float:
        """Return the constant epsilon."""
        return self.epsilon


class LinearDecayEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy explorer with an epsilon that decays linearly and then stays constant.

    Args:
        start_epsilon: Epsilon at step 0.
        end_epsilon: Epsilon from step `decay_steps` on.
        decay_steps: Number of steps of the decay. If 0, epsilon is always `end_epsilon`.
        random_action_func: Function without arguments that returns a random action.
        logger: Logger to which each selected action is logged, at level DEBUG.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        ValueError: If an epsilon is not from 0 to 1, or if `decay_steps` is negative.
        TypeError: If `random_action_func` is not callable, or if `decay_steps` is not an integer.
    """

    def __init__(
        self,
        start_epsilon: float,
        end_epsilon: float,
        decay_steps: float,
        random_action_func: RandomAction,
        logger: Logger = _LOGGER,
        *,
        rng: RandomSource = None,
    ) -> None:
        super().__init__(_probability("start_epsilon", start_epsilon), random_action_func, logger, rng)
        check_numbers(decay_steps=decay_steps)
        if decay_steps < 0:
            raise ValueError(f"decay_steps is {decay_steps!r}, expected a number of at least 0")
        self.start_epsilon = start_epsilon
        self.end_epsilon = _probability("end_epsilon", end_epsilon)
        self.decay_steps = decay_steps

    def compute_epsilon(self, t: int) -> float:
        """Return epsilon for step t."""
        if t >= self.decay_steps:
            return self.end_epsilon
        return self.start_epsilon + (self.end_epsilon - self.start_epsilon) * (t / self.decay_steps)


class ExponentialDecayEpsilonGreedy(EpsilonGreedy):
    """Epsilon-greedy explorer that multiplies epsilon by a factor at every step, until it reaches a minimum.

    Args:
        start_epsilon: Epsilon at step 0.
        end_epsilon: Minimum epsilon.
        decay: Factor by which epsilon is multiplied at each step, between 0 and 1.
        random_action_func: Function without arguments that returns a random action.
        logger: Logger to which each selected action is logged, at level DEBUG.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Raises:
        ValueError: If an epsilon is not from 0 to 1, or `decay` is not between 0 and 1.
        TypeError: If `random_action_func` is not callable.
    """

    def __init__(
        self,
        start_epsilon: float,
        end_epsilon: float,
        decay: float,
        random_action_func: RandomAction,
        logger: Logger = _LOGGER,
        *,
        rng: RandomSource = None,
    ) -> None:
        super().__init__(_probability("start_epsilon", start_epsilon), random_action_func, logger, rng)
        if not 0 < decay < 1:
            raise ValueError(f"decay is {decay!r}, expected a number between 0 and 1")
        self.start_epsilon = start_epsilon
        self.end_epsilon = _probability("end_epsilon", end_epsilon)
        self.decay = decay

    def compute_epsilon(self, t: int) -> float:
        """Return epsilon for step t."""
        return float(max(self.start_epsilon * self.decay**t, self.end_epsilon))


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r}, expected a number from 0 to 1")
    return value


__getattr__ = old_names(__name__)
