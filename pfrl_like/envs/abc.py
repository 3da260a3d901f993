"""`ABC`: a tiny environment with a known optimum, for tests of agents."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pfrl_like.env import Env
from pfrl_like.random_streams.streams import get_rng_state, legacy_rng, plain_state


class ABC(Env):
    """Chain of states in which action i is correct in state i, with PFRL's interface of four values.

    An episode starts in state 0. The correct action leads to the next state. In the last state it earns +1 and ends the
    episode, or leads back to state 0 if the task is not episodic. A wrong action earns nothing and ends the episode, or
    keeps the state if the task is not episodic. So the best return of an episode is 1.

    An observation is the number of the state as a one-hot float32 vector of length `size + 2`: the states, the terminal
    state, and one more place, so that a partially observable task can shift all of them by one.

    Args:
        size: Number of states before the terminal one, and of actions.
        discrete: Whether an action is an integer. Otherwise it is a vector of `size` numbers, clipped to [-1, 1], that
            are the logits of a distribution from which the integer is drawn.
        partially_observable: Whether observations are shifted by one in some episodes. Then the first observation shows
            whether the episode is shifted, and only an agent with a memory can act well.
        episodic: Whether episodes end.
        deterministic: Whether nothing is random: the largest logit decides, and every second episode, from the first
            on, is shifted.
    """

    def __init__(
        self,
        size: int = 2,
        discrete: bool = True,
        partially_observable: bool = False,
        episodic: bool = True,
        deterministic: bool = False,
    ) -> None:
        self.size = size
        self.discrete = discrete
        self.partially_observable = partially_observable
        self.episodic = episodic
        self.deterministic = deterministic
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(size + 2,), dtype=np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(size) if discrete else spaces.Box(-1.0, 1.0, shape=(size,), dtype=np.float32)
        )
        self._state = self._shift = 0
        self._rng: Any = None

    def seed(self, seed: int) -> None:
        """Seed the environment's own stream, which is used from then on; before, the global NumPy stream is used."""
        self._rng = np.random.RandomState(seed)

    def reset(self) -> NDArray[np.float32]:
        """Start an episode; returns the observation, [size + 2]."""
        self._state = 0
        if self.partially_observable:
            self._shift = 1 - self._shift if self.deterministic else int(self._random.randint(2))
        return self._observe()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Act; returns (obs, reward, done, info)."""
        is_right = self._choice(action) == self._state
        is_last = self._state == self.size - 1
        reward = 1.0 if is_right and is_last else 0.0
        done = self.episodic and (is_last or not is_right)
        if done:
            self._state = self.size
        elif is_right:
            self._state = 0 if is_last else self._state + 1
        return self._observe(), reward, done, {}

    def close(self) -> None:
        """Do nothing: there are no resources to release."""

    def saved_state(self) -> dict[str, Any]:
        """State that persists from episode to episode."""
        return {"shift": self._shift, "rng": plain_state(get_rng_state(self._rng))}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `saved_state`."""
        self._shift, self._rng = int(state["shift"]), legacy_rng(state["rng"])

    @property
    def _random(self) -> Any:
        return np.random if self._rng is None else self._rng

    def _choice(self, action: Any) -> int:
        if self.discrete:
            return int(action)
        logits = np.clip(np.asarray(action, dtype=np.float64), -1.0, 1.0)
        if self.deterministic:
            return int(np.argmax(logits))
        weights = np.exp(logits)
        return int(self._random.choice(self.size, p=weights / weights.sum()))

    def _observe(self) -> NDArray[np.float32]:
        obs = np.zeros(self.size + 2, dtype=np.float32)
        obs[self._state + self._shift] = 1.0
        return obs
