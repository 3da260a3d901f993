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
    """Adds the value x of an Ornstein-Uhlenbeck process to the greedy action (arXiv:1509.02971).

    At every step the process adds theta * (mu - x) + sigma * N(0, 1) to x. Each environment has a separate process. A
    process continues after the end of an episode.

    Args:
        mu: Mean of the process.
        theta: Rate at which the process returns to the mean.
        sigma: Scale of the noise, a number or an array of the action's shape.
        start_with_mu: True to start a process at its mean, False to sample its first value from its stationary
            distribution.
        logger: Logger to which the noise of every step is logged, at level DEBUG.
        rng: NumPy generator. If None, every call uses NumPy's global generator.

    Attributes:
        ou_state: Values of the processes at the latest step, float32. After `select_action` it has the shape of one
            action. After `select_actions` for k environments it has the shape [k, ...]. None before the first step.

    Raises:
        ValueError: If `sigma` is negative, or if `start_with_mu` is False and `theta` is not between 0 and 2. In the
            second case the process has no stationary distribution.
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
            raise ValueError(f"theta is {theta!r}, expected a number between 0 and 2, or start_with_mu=True")
        self.mu, self.theta, self.sigma = mu, theta, sigma
        self.start_with_mu, self.logger = start_with_mu, logger
        self.ou_state: NDArray[np.float32] | None = None
        self._started: NDArray[np.bool_] = np.zeros(0, dtype=bool)  # True if the process has started, [k]

    def select_action(self, t: int, greedy_action_func: Callable[[], Any], action_value: Any = None) -> Any:
        """Return the greedy action plus the noise of a single process.

        Raises:
            TypeError: If the action is an integer.
        """
        noisy, noise = self._add_noise(t, continuous(self, greedy_action_func())[None], None)
        self.ou_state = noise[0]
        return noisy[0]

    def select_actions(self, t: int, greedy_actions: Any, action_value: Any = None, active: Any = None) -> Any:
        """Return the greedy action of each environment plus the noise of the environment's process, [k, ...].

        If the number of environments or the shape of the actions has changed, all processes start again.

        Raises:
            TypeError: If the actions are integers.
        """
        noisy, self.ou_state = self._add_noise(t, continuous(self, greedy_actions), active)
        return noisy

    def _add_noise(self, t: int, actions: NDArray[Any], active: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
        noise = self._prepare_noise(actions.shape)
        rows = active_rows(active, len(actions))
        started = self._started[rows]
        self._start(noise, rows[~started])
        running = rows[started]
        is_default = type(self).evolve is _EVOLVE and "evolve" not in vars(self)
        for batch in ([running] if len(running) else []) if is_default else running.tolist():
            self.ou_state = noise[batch]
            self.evolve()
            noise[batch] = self.ou_state
        if self.logger.isEnabledFor(logging.DEBUG):
            self.logger.debug("t:%s noise:%s", t, noise)
        noisy = actions + noise
        if len(rows) < len(actions):
            idle = ~np.asarray(active, dtype=bool)
            noisy[idle] = actions[idle]
        return noisy, noise

    def _prepare_noise(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        state = self.ou_state
        if state is not None and shape == (1, *state.shape) and len(self._started) == 1:
            state = state[None]  # `select_action` stores the state without the axis of environments
        if state is None or state.shape != shape:
            state = np.zeros(shape, dtype=np.float32)
            self._started = np.zeros(shape[0], dtype=bool)
        return state

    def _start(self, noise: NDArray[np.float32], rows: NDArray[np.int64]) -> None:
        if len(rows) == 0:
            return
        if self.start_with_mu:
            noise[rows] = self.mu
        else:
            stationary = self.sigma / np.sqrt(2 * self.theta - self.theta**2)
            noise[rows] = self._source.normal(size=noise[rows].shape, loc=self.mu, scale=stationary)
        self._started[rows] = True

    def evolve(self) -> None:
        """Update `ou_state` by one step of the process.

        A subclass may override this method, and a user may assign a function to the attribute `evolve`. Such a
        replacement is called once for each process, while `ou_state` is the value of this process, in the shape of one
        action.
        """
        state: Any = self.ou_state
        drift = self.theta * (self.mu - state)
        self.ou_state = state + (drift + self._source.normal(size=state.shape, loc=0, scale=self.sigma))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the processes and, if `rng` is not None, the state of the generator."""
        ou_state = None if self.ou_state is None else self.ou_state.tolist()
        return {**super().state_dict(), "ou_state": ou_state, "begun": self._started.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned.

        Raises:
            ValueError: If the state was saved by an explorer of a different class, or if only one of the saved and this
                explorer has an `rng`.
        """
        state = dict(state)
        if not {"ou_state", "begun"} <= state.keys():
            raise ValueError(f"state has {sorted(state)}, expected the state of an AdditiveOU")
        ou_state, started = state.pop("ou_state"), np.array(state.pop("begun"), dtype=bool)
        ou_state = None if ou_state is None else np.array(ou_state, dtype=np.float32)
        super().load_state_dict(state)
        self.ou_state, self._started = ou_state, started


#: The default `evolve`. It can update the processes of all environments in one call.
_EVOLVE = AdditiveOU.evolve
