"""Wrappers of vector environments: base class, and stacked frames."""

import inspect
from collections import deque
from collections.abc import Mapping
from typing import Any

from gymnasium.vector import VectorEnv as GymnasiumVectorEnv

from pfrl_like.env import VectorEnv
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.env_values import Forwarding
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.wrappers.frames import GymnasiumFrameStack, LazyFrames, push_frame, stacked_space


class VectorEnvWrapper(Forwarding, VectorEnv):
    """Base class of wrappers of vector environments: override `reset` and `step`.

    Other public attributes are the attributes of the vector environment.

    Args:
        env: A `SerialVectorEnv`, a `MultiprocessVectorEnv` or another vector environment with the same interface.

    Attributes:
        env: The wrapped vector environment.
    """

    _single_env_wrapper = "Wrapper"  # the corresponding wrapper of a single environment

    def __init__(self, env: Any) -> None:
        if not isinstance(getattr(env, "num_envs", None), int):
            advice = f"use {self._single_env_wrapper} for a single environment"
            raise TypeError(f"env is {type(env).__name__}, expected a vector environment: {advice}")
        self.env, self.action_space, self.observation_space = env, env.action_space, env.observation_space

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes in the environments where `mask` is not True."""
        return self.env.reset(mask)

    def step(self, action: Any) -> Any:
        """Step all environments and return four or five values, like the environments."""
        return self.env.step(action)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Return the result of the vector environment's `render`.

        Args:
            mode: Argument of `render`, passed only if `render` has a parameter `mode`, `*args` or `**kwargs`.
            **kwargs: Further arguments of `render`.
        """
        parameters = inspect.signature(self.env.render).parameters
        kinds = [each.kind for each in parameters.values()]
        if "mode" not in parameters and inspect.Parameter.VAR_POSITIONAL in kinds:
            return self.env.render(mode, **kwargs)
        if "mode" in parameters or inspect.Parameter.VAR_KEYWORD in kinds:
            kwargs["mode"] = mode
        return self.env.render(**kwargs)

    def seed(self, seed: Any = None) -> Any:
        """Seed the environments and return the result of the vector environment's `seed`.

        Args:
            seed: Seeds, one integer for each environment, or what else `seed` of the vector environment accepts.
        """
        return self.env.seed(seed)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return the rewards that the vector environment computes for goals.

        Args:
            achieved_goal: Goals that were achieved.
            desired_goal: Goals to achieve.
            info: Infos of the steps.
        """
        return self.env.compute_reward(achieved_goal, desired_goal, info)

    def close(self) -> None:
        """Close the environments."""
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        """The vector environment inside all wrappers."""
        return self.env.unwrapped


class VectorFrameStack(VectorEnvWrapper):
    """Stack the last `k` frames of each environment, like `FrameStack` for a single environment.

    The frames are stacked in this process. Therefore the workers of a `MultiprocessVectorEnv` send only the newest
    frames, not stacks, which are k times as large. If `env` is a `gymnasium.vector.VectorEnv`, in any autoreset mode,
    the wrapper is also a `gymnasium.vector.VectorEnv`, and its observations are arrays [num_envs, ...]. Otherwise each
    observation is a `LazyFrames`.

    Args:
        env: Vector environment with images as observations.
        k: Number of frames.
        stack_axis: Axis of an image along which the frames are concatenated.

    Raises:
        ValueError: If the observation space is not a Box with the axis `stack_axis`, or if `k` is below 1.
        TypeError: If `env` is not a vector environment. For a single environment, use `atari_wrappers.FrameStack`.
    """

    _single_env_wrapper = "atari_wrappers.FrameStack"

    @takes_integral_floats
    def __new__(cls, env: Any, k: int, stack_axis: int = 0) -> Any:
        """Return a `GymnasiumFrameStack` if `env` is a `gymnasium.vector.VectorEnv`."""
        if isinstance(env, GymnasiumVectorEnv):
            return GymnasiumFrameStack(env, k, stack_axis)
        return super().__new__(cls)

    @takes_integral_floats
    def __init__(self, env: Any, k: int, stack_axis: int = 0) -> None:
        super().__init__(env)
        check_counts(k=k)
        self.k, self.stack_axis = k, stack_axis
        self.frames: list[deque[Any]] = [deque(maxlen=int(k)) for _ in range(env.num_envs)]
        self.observation_space = stacked_space(env.observation_space, k, stack_axis)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return self.env, self.k, self.stack_axis  # arguments of `__new__`, for copy and pickle

    def reset(self, mask: Any = None) -> Any:
        """Start new episodes in the environments where `mask` is not True."""
        result = self.env.reset(mask)
        has_infos = type(result) is tuple and len(result) == 2 and isinstance(result[1], list)
        obs = result[0] if has_infos else result
        for i, (frames, frame) in enumerate(zip(self.frames, obs, strict=True)):
            if mask is None or not mask[i]:
                frames.clear()
                push_frame(frames, frame, self.stack_axis)
        return (self.last_obs, result[1]) if has_infos else self.last_obs

    def saved_state(self) -> dict[str, Any]:
        """Return the last frames of each environment."""
        return {"frames": to_json([list(frames) for frames in self.frames])}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        for frames, saved in zip(self.frames, from_json(state["frames"]), strict=True):
            frames.clear()
            frames.extend(saved)

    @property
    def last_obs(self) -> list[LazyFrames]:
        """Latest observations."""
        return [LazyFrames(list(frames), self.stack_axis) for frames in self.frames]

    def step(self, action: Any) -> Any:
        """Step all environments and return four or five values, like the environments."""
        obs, *rest = self.env.step(action)
        stacks = [push_frame(frames, frame, self.stack_axis) for frames, frame in zip(self.frames, obs, strict=True)]
        return (stacks, *rest)
