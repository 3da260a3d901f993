"""Exploration by Ornstein-Uhlenbeck noise on continuous actions."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.explorers.epsilon_greedy import RandomExplorer, active_rows, continuous
from pfrl_like.utils.random import RandomSource

_LOGGER = logging.getLogger(__name__)


class AdditiveOU(RandomExplorer):
    """Adds an Ornstein-Uhlenbeck process x to the greedy action (Lillicrap et al. 2015, arXiv:1509.02971).

    At every step x += theta * (mu - x) + sigma * N(0, 1). Each environment has its own process. The process is not
    reset at the end of an episode.

    Args:
        mu: Mean of the process.
        theta: Rate at which the process returns to the mean.
        sigma: Scale of the noise, a number or an array of the action's shape.
        start_with_mu: True to start the process at the mean, False to sample the start from its stationary
            distribution.
        logger: Logger for the noise, at level DEBUG.
        rng: NumPy generator; None uses NumPy's global generator, which is looked up at every call.

    Attributes:
        ou_state: Noise of the latest step, float32: the shape of one action after `select_action`, [k, ...] after
            `select_actions`; None before the first step.

    Raises:
        ValueError: If `sigma` is negative, or if `start_with_mu` is False and `theta` is not between 0 and 2, so that
            the process has no stationary distribution.
    """

    reads_action_value = False
    action_kinds = ("continuous",)

    def __init__(
        self,
        mu: float = 0.0,
        theta: float = 0.15,
        sigma: Any = 0.3,
        start_with_mu: bool = False,
        logger: logging.Logger = _LOGGER,
        *,
        rng: RandomSource = None,
    ) -> None:
        super().__init__(rng)
        if not np.all(np.asarray(sigma) >= 0):
            raise ValueError(f"sigma is {sigma!r}, expected numbers that are not negative")
        if not start_with_mu and not 0 < theta < 2:
            raise ValueError(f"theta is {theta!r}, expected a number between 0 and 2 unless start_with_mu")
        self.mu = mu
        self.theta = theta
        self.sigma = sigma
        self.start_with_mu = start_with_mu
        self.logger = logger
        self.ou_state: NDArray[np.float32] | None = None
        self._begun: NDArray[np.bool_] = np.zeros(0, dtype=bool)  # True if the process has started, [k]

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return the greedy action plus noise. `select_action` uses a single process.

        Raises:
            TypeError: If the action is an integer.
        """
        noisy, noise = self._disturbed(t, continuous(self, greedy_action_func())[None], None)
        self.ou_state = noise[0]
        return noisy[0]

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return the greedy actions, each plus the noise of its environment's process, [k, ...].

        All processes restart if the number of environments or the shape of the actions changes.

        Raises:
            TypeError: If the actions are integers.
        """
        noisy, self.ou_state = self._disturbed(t, continuous(self, greedy_actions), active)
        return noisy

    def _disturbed(self, t: int, actions: NDArray[Any], active: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
        noise = self._noise_of(actions.shape)
        rows = active_rows(active, len(actions))
        begun = self._begun[rows]
        self._begin(noise, rows[~begun])
        moving = rows[begun]
        evolves_alike = type(self).evolve is _EVOLVE and "evolve" not in vars(self)
        for some in ([moving] if len(moving) else []) if evolves_alike else moving.tolist():
            self.ou_state = noise[some]
            self.evolve()
            noise[some] = self.ou_state
        if self.logger.isEnabledFor(logging.DEBUG):
            self.logger.debug("t:%s noise:%s", t, noise)
        noisy = actions + noise
        if len(rows) < len(actions):
            idle = ~np.asarray(active, dtype=bool)
            noisy[idle] = actions[idle]
        return noisy, noise

    def _noise_of(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        state = self.ou_state
        if state is not None and shape == (1, *state.shape) and len(self._begun) == 1:
            state = state[None]  # `select_action` stores the state without the axis of environments
        if state is None or state.shape != shape:
            state = np.zeros(shape, dtype=np.float32)
            self._begun = np.zeros(shape[0], dtype=bool)
        return state

    def _begin(self, noise: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        if len(rows) == 0:
            return
        if self.start_with_mu:
            noise[rows] = self.mu
        else:
            stationary = self.sigma / np.sqrt(2 * self.theta - self.theta**2)
            noise[rows] = self._source.normal(size=noise[rows].shape, loc=self.mu, scale=stationary)
        self._begun[rows] = True

    def evolve(self) -> None:
        """Update `ou_state` by one step of the process.

        A subclass may override the method, or a function may be assigned to an explorer. The replacement is called once
        for each process that makes a step, and `ou_state` then has the shape of one action.
        """
        state: Any = self.ou_state
        drift = self.theta * (self.mu - state)
        self.ou_state = state + (drift + self._source.normal(size=state.shape, loc=0, scale=self.sigma))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the processes and, if the explorer has its own generator, the generator's state."""
        ou_state = None if self.ou_state is None else self.ou_state.tolist()
        return {**super().state_dict(), "ou_state": ou_state, "begun": self._begun.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            ValueError: If the state belongs to a different type of explorer.
        """
        state = dict(state)
        if not {"ou_state", "begun"} <= state.keys():
            raise ValueError(f"state has {sorted(state)}, expected the state of an AdditiveOU")
        ou_state, begun = state.pop("ou_state"), np.array(state.pop("begun"), dtype=bool)
        ou_state = None if ou_state is None else np.array(ou_state, dtype=np.float32)
        super().load_state_dict(state)
        self.ou_state, self._begun = ou_state, begun


#: The default `evolve`. It updates the processes of all environments at once.
_EVOLVE = AdditiveOU.evolve
