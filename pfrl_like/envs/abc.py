"""`ABC`: a tiny environment with a known optimum, for tests of agents."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pfrl_like.env import Env
from pfrl_like.random_streams.streams import get_rng_state, legacy_rng, plain_state


class ABC(Env):
    """Chain of states; `step` returns four values, as in PFRL's interface. Action i is correct in state i.

    An episode starts in state 0. The correct action moves to the next state. In the last state, the correct action has
    the reward +1 and ends the episode. A wrong action has the reward 0 and ends the episode. So the maximum return of
    an episode is 1. If the task is not episodic, the correct action in the last state moves to state 0, and a wrong
    action does not change the state.

    An observation is the one-hot float32 vector of the state. It has `size + 2` entries: one for each state, one for
    the terminal state, and one because a partially observable task shifts the index by one.

    Args:
        size: Number of states (not counting the terminal state), and number of actions.
        discrete: True if an action is an integer. If False, an action is a vector [size], clipped to [-1, 1]: the
            logits of the distribution that the integer is sampled from.
        partially_observable: True to shift the index of the 1 in the observations by one in some episodes. Only the
            first observation tells if the episode is shifted, so only an agent with a memory can act optimally.
        episodic: True if episodes end.
        deterministic: True for a deterministic task. A vector action then selects the index of its largest logit. In a
            partially observable task, the first, third, ... episodes are shifted.
    """

    def __init__(
        self,
        size: int = 2,
        discrete: bool = True,
        partially_observable: bool = False,
        episodic: bool = True,
        deterministic: bool = False,
    ) -> None:
        self.size, self.discrete, self.partially_observable = size, discrete, partially_observable
        self.episodic, self.deterministic = episodic, deterministic
        self.terminal_state, self.n_max_offset, self.n_dim_obs = size, 1, size + 2
        self.observation_space = spaces.Box(-np.inf, np.inf, shape=(self.n_dim_obs,), dtype=np.float32)
        self.action_space: spaces.Space[Any] = (
            spaces.Discrete(size) if discrete else spaces.Box(-1.0, 1.0, shape=(size,), dtype=np.float32)
        )
        self._state = self._shift = 0
        self._rng: Any = None

    def seed(self, seed: int) -> None:
        """Seed the environment's own random stream. Before the first call, the global NumPy stream is used."""
        self._rng = np.random.RandomState(seed)

    def reset(self) -> NDArray[np.float32]:
        """Start an episode and return the observation, [size + 2]."""
        self._state = 0
        if self.partially_observable:
            self._shift = 1 - self._shift if self.deterministic else int(self._random.randint(2))
        return self.observe()

    def observe(self) -> NDArray[np.float32]:
        """Return the observation of the current state, [size + 2]."""
        obs = np.zeros(self.n_dim_obs, dtype=np.float32)
        obs[self._state + self._shift] = 1.0
        return obs

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, dict[str, Any]]:
        """Execute an action and return (obs, reward, done, info)."""
        is_right = self._choice(action) == self._state
        is_last = self._state == self.size - 1
        reward = 1.0 if is_right and is_last else 0.0
        done = self.episodic and (is_last or not is_right)
        if done:
            self._state = self.terminal_state
        elif is_right:
            self._state = 0 if is_last else self._state + 1
        return self.observe(), reward, done, {}

    def close(self) -> None:
        """Do nothing, because there are no resources to release."""

    def saved_state(self) -> dict[str, Any]:
        """Return the state that persists over episodes."""
        return {"shift": self._shift, "rng": plain_state(get_rng_state(self._rng))}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
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
