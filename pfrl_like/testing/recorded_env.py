"""`RecordedEnv`: what really happened in an environment, for comparison with what an agent makes of it."""

import copy
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from pfrl_like.env import as_gymnasium
from pfrl_like.utils.env_values import own_copy

#: How episodes are ended, in turn: (terminated, truncated) of their last steps.
ENDINGS = ((False, True), (True, False), (True, True))
#: After how many steps, in turn.
LENGTHS = (3, 5, 4, 2)


class Step(NamedTuple):
    """One step as it really was; `next_obs` is the true observation after it."""

    obs: Any
    action: Any
    reward: float
    next_obs: Any
    terminated: bool
    truncated: bool


class RecordedEnv(gymnasium.Env[Any, Any]):
    """An environment whose short episodes end in every way, and which keeps all its steps.

    Args:
        env: Environment of any form; it is copied.
        number: Which one it is of several: they end their episodes at different times and in different order.
        seed: Seed of the first episode, used if the environment takes one, and of the rewards.
        endings: How episodes end, in turn.
        own_rewards: Whether rewards are random numbers in place of the environment's, so that each step, and each sum
            of some in a row, can be told from all others.

    Attributes:
        episodes: The steps of each episode.
    """

    def __init__(
        self,
        env: Any,
        number: int = 0,
        seed: int = 0,
        endings: tuple[tuple[bool, bool], ...] = ENDINGS,
        own_rewards: bool = True,
    ) -> None:
        self.env = as_gymnasium(copy.deepcopy(env))
        self.observation_space: Any = getattr(self.env, "observation_space", None)
        self.action_space: Any = getattr(self.env, "action_space", None)
        self.number = number
        self.endings = endings
        self.episodes: list[list[Step]] = []
        self._seed: int | None = seed + number
        self._rewards = np.random.default_rng(seed + number) if own_rewards else None
        self._obs: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; seeds but the first are taken from the stream of this one."""
        try:
            obs, info = self.env.reset() if self._seed is None else self.env.reset(seed=self._seed)
        except ValueError:  # it takes no seed
            obs, info = self.env.reset()
        self._seed, self._obs = None, own_copy(obs)
        self.episodes.append([])
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Act, and keep what came of it."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        truncated = bool(truncated or info.get("needs_reset", False))
        which, episode = self.number + len(self.episodes), self.episodes[-1]
        if len(episode) + 1 == LENGTHS[which % len(LENGTHS)]:
            terminates, truncates = self.endings[which % len(self.endings)]
            terminated, truncated = terminated or terminates, truncated or truncates
        reward = float(reward if self._rewards is None else self._rewards.uniform())
        episode.append(Step(self._obs, own_copy(action), reward, own_copy(obs), bool(terminated), truncated))
        self._obs = episode[-1].next_obs
        return obs, reward, bool(terminated), truncated, info

    @property
    def ended(self) -> bool:
        """Whether the last episode is over."""
        last = self.episodes[-1][-1:]
        return bool(last) and (last[0].terminated or last[0].truncated)
