"""Stacks of frames over a vector environment of gymnasium; made by `VectorFrameStack`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.wrappers.frame_stack import stacked_space


class GymnasiumFrameStack(VectorWrapper):
    """Observe the last `k` frames of each environment; an episode's first frame counts `k` times.

    An environment that resets itself begins a new stack: in the step after the end, or in the same one, whose
    `info["final_obs"]` holds the last stacks of the episodes that have ended.

    Args:
        env: Vector environment with images as observations.
        k: How many frames.
        stack_axis: Axis of an image along which they are joined.

    Raises:
        ValueError: As `VectorFrameStack`.
    """

    def __init__(self, env: Any, k: int, stack_axis: int = 0) -> None:
        super().__init__(env)
        check_counts(k=k)
        self.k = k
        self.single_observation_space = stacked_space(env.single_observation_space, k, stack_axis)
        self.stack_axis = range(len(self.single_observation_space.shape or ()))[stack_axis]  # from the front
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        self._stacks: Any = None
        self._ended = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, in all environments or where `options["reset_mask"]`."""
        mask = True if options is None else options.get("reset_mask", True)  # which the environment takes out
        begins = np.broadcast_to(np.array(mask, np.bool_), self.num_envs)
        obs, info = self.env.reset(seed=seed, options=options)
        stacks = self._first_stacks(obs)
        if not begins.all():
            stacks[~begins] = self._stacks[~begins]
        self._stacks = stacks
        self._ended = self._ended & ~begins
        return self._stacks.copy(), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Act in every environment."""
        obs, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.asarray(terminated | truncated)
        begins = self._ended if self._mode is AutoresetMode.NEXT_STEP else ended
        if self._mode is AutoresetMode.SAME_STEP and ended.any():
            info = {**info, "final_obs": self._final_stacks(obs, info["final_obs"], ended)}
        stacks = self._pushed(obs)
        if self._mode is not AutoresetMode.DISABLED and begins.any():
            stacks[begins] = self._first_stacks(obs)[begins]
        self._stacks, self._ended = stacks, ended
        return stacks.copy(), reward, terminated, truncated, info

    def saved_state(self) -> dict[str, Any]:
        """The stacks, and which episodes have ended."""
        return {"stacks": to_json(self._stacks), "ended": self._ended.tolist()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self._stacks, self._ended = from_json(state["stacks"]), np.array(state["ended"], np.bool_)

    def _first_stacks(self, obs: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([obs] * self.k, axis=self.stack_axis + 1)

    def _pushed(self, obs: NDArray[Any]) -> NDArray[Any]:
        oldest = obs.shape[self.stack_axis + 1]
        kept = np.moveaxis(np.moveaxis(self._stacks, self.stack_axis + 1, 0)[oldest:], 0, self.stack_axis + 1)
        return np.concatenate([kept, obs], axis=self.stack_axis + 1)

    def _final_stacks(self, obs: NDArray[Any], final_obs: Any, ended: NDArray[np.bool_]) -> NDArray[np.object_]:
        last = obs.copy()
        for i in np.flatnonzero(ended).tolist():
            last[i] = final_obs[i]
        final = np.empty(self.num_envs, object)
        for i, stack in enumerate(self._pushed(last)):
            final[i] = stack if ended[i] else None
        return final
