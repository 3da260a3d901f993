"""`BitFlipping`: a goal environment with very sparse rewards."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.goals import ACHIEVED_GOAL, DESIRED_GOAL, OBSERVATION

Bits = NDArray[np.float32]


class BitFlipping(gymnasium.Env[dict[str, Bits], np.int64]):
    """Flip bits until they equal the desired bits (Andrychowicz et al. 2017, arXiv:1707.01495, section 3.1).

    Action i flips bit i. Initial and desired bits are sampled uniformly. The reward is 0 if a step reaches the desired
    bits, and otherwise -1. So the maximum return of an episode is 1 minus the number of bits that differ initially.
    Only one of the 2**n_bits states is a goal: with more than about 13 bits, random exploration never reaches it.

    An observation is a dict with the keys `observation`, `achieved_goal` (both contain the bits) and `desired_goal`,
    each a float32 vector [n_bits] of zeros and ones.

    Args:
        n_bits: Number of bits and of actions.
        max_steps: Number of steps after which an episode is truncated. If None, `n_bits` steps.
        terminates: True to end the episode at the desired bits. If False, the episode continues, and each step to other
            bits has the reward -1 again.

    Raises:
        ValueError: If `n_bits` or `max_steps` is less than 1.
    """

    def __init__(self, n_bits: int = 10, max_steps: int | None = None, terminates: bool = True) -> None:
        self.n_bits = n_bits
        self.max_steps = n_bits if max_steps is None else max_steps
        self.terminates = terminates
        check_counts(n_bits=n_bits, max_steps=self.max_steps)
        bits = spaces.Box(0.0, 1.0, (n_bits,), np.float32)
        keys = (OBSERVATION, ACHIEVED_GOAL, DESIRED_GOAL)
        self.observation_space: spaces.Space[Any] = spaces.Dict(dict.fromkeys(keys, bits))
        self.action_space = spaces.Discrete(n_bits)
        self._bits = self._goal = np.zeros(n_bits, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Bits], dict[str, Any]]:
        """Start an episode and return (obs, info)."""
        super().reset(seed=seed)
        self._bits, self._goal = self.np_random.integers(2, size=(2, self.n_bits)).astype(np.float32)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[dict[str, Bits], float, bool, bool, dict[str, Any]]:
        """Flip a bit and return (obs, reward, terminated, truncated, info)."""
        self._bits[action] = 1.0 - self._bits[action]
        self._steps += 1
        info = {"is_success": bool((self._bits == self._goal).all())}
        reward = float(self.compute_reward(self._bits, self._goal, info))
        terminated = bool(self.compute_terminated(self._bits, self._goal, info))
        return self._observe(), reward, terminated, self._steps >= self.max_steps, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return 0 if the goals are equal, else -1. For goals [B, n_bits], return one reward for each pair, [B]."""
        return (achieved_goal == desired_goal).all(axis=-1) - np.float32(1.0)

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return True if the episode ends. The shapes are the same as in `compute_reward`."""
        return (achieved_goal == desired_goal).all(axis=-1) & self.terminates

    def _observe(self) -> dict[str, Bits]:
        return {OBSERVATION: self._bits.copy(), ACHIEVED_GOAL: self._bits.copy(), DESIRED_GOAL: self._goal.copy()}
