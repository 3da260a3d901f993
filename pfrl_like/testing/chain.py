"""A task whose values can be written down: where an agent's targets and values are compared with the truth."""

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from pfrl_like.action_value import DiscreteActionValue

STAY, GO_ON = 0, 1


class Chain(gymnasium.Env[NDArray[np.float32], np.int64]):
    """States 0 to size - 1 in a row; nothing is random but the first state of an episode.

    In state s the action 1 earns s + 1 and leads to the next state, the action 0 earns nothing and stays. What follows
    the last state is the end, or state 0 again; so it is always best to go on. An observation is the number of the
    state as a one-hot float32 vector [size + 1], whose last place is the end.

    Args:
        size: Number of states.
        terminates: Whether the end follows the last state (the episode is terminated), or state 0.
        time_limit: Steps after which an episode is cut off (truncated), None for no limit. It is no part of the task:
            the values are those of a task that goes on. A step may be both terminated and truncated.
    """

    def __init__(self, size: int = 4, terminates: bool = True, time_limit: int | None = None) -> None:
        self.size = size
        self.terminates = terminates
        self.time_limit = time_limit
        self.observation_space = spaces.Box(0.0, 1.0, (size + 1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._state = 0
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode in a random state."""
        super().reset(seed=seed)
        self._state = int(self.np_random.integers(self.size))
        self._steps = 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Stay or go on."""
        reward = 0.0
        if action == GO_ON:
            reward = self._state + 1.0
            self._state += 1
            if self._state == self.size and not self.terminates:
                self._state = 0
        self._steps += 1
        return self._observation(), reward, self._state == self.size, self._steps == self.time_limit, {}

    def q_values(self, gamma: float) -> NDArray[np.float64]:
        """The optimal values of every state and action, [size + 1, 2]; zeros for the end.

        Going on from s earns S(s) = (s + 1) + gamma (s + 2) + ... + gamma**(size - 1 - s) size until state 0 or the end
        follows. So V(s) = S(s) if the chain ends there, and otherwise V(0) = S(0) / (1 - gamma**size) and
        V(s) = S(s) + gamma**(size - s) V(0). Going on has the value V(s), staying gamma V(s).
        """
        values = np.zeros(self.size + 1)
        for s in range(self.size):
            values[s] = sum(gamma ** (k - s) * (k + 1) for k in range(s, self.size))
        if not self.terminates:
            again = values[0] / (1 - gamma**self.size)
            values[:-1] += gamma ** (self.size - np.arange(self.size)) * again
        return np.stack([gamma * values, values], axis=1)

    def _observation(self) -> NDArray[np.float32]:
        obs = np.zeros(self.size + 1, dtype=np.float32)
        obs[self._state] = 1.0
        return obs


class ChainQFunction(nn.Module):
    """A table of values for a `Chain`, as a Q-function; the true ones at first.

    The value of the end, which nothing may be bootstrapped from, is far from true, so that a target that uses it shows.

    Args:
        chain: The task.
        gamma: Discount factor per step.
    """

    def __init__(self, chain: Chain, gamma: float) -> None:
        super().__init__()
        values = torch.as_tensor(chain.q_values(gamma), dtype=torch.float64)
        values[-1] = 1000.0
        self.table = nn.Parameter(values)

    def forward(self, obs: Tensor) -> DiscreteActionValue:
        """The values of B observations, [B, size + 1]."""
        return DiscreteActionValue(obs.to(self.table.dtype) @ self.table)
