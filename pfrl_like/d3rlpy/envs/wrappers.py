"""Wrappers of gymnasium environments with images, Atari games and goals, and `seed_env`."""

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Tuple
from numpy.typing import NDArray

from pfrl_like.env import as_gymnasium
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.env_values import space_kind
from pfrl_like.wrappers.atari_wrappers import ClipRewardEnv


def seed_env(env: Any, seed: int) -> None:
    """Seed an environment by a reset, and its action space.

    Args:
        env: A gymnasium environment.
        seed: The seed.
    """
    env.reset(seed=seed)
    env.action_space.seed(seed)


def _box_of(env: Any, n_axes: int | None = None) -> Any:
    """Return the observation space of an environment.

    Raises:
        ValueError: If it is not a Box, or if it has not `n_axes` axes.
    """
    space = env.observation_space
    if space_kind(space) != "box" or n_axes not in (None, len(space.shape)):
        expected = "a Box" if n_axes is None else f"images, a Box of {n_axes} axes"
        raise ValueError(f"env has the observation space {space}, expected {expected}")
    return space


class ChannelFirst(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Move the channels of images to the first axis: [H, W, C] becomes [C, H, W], and [H, W] becomes [1, H, W].

    Args:
        env: A gymnasium environment with images as observations.

    Raises:
        ValueError: If the observations are not images.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(as_gymnasium(env))
        space = _box_of(env, min(3, max(2, len(env.observation_space.shape or ()))))
        self.observation_space = Box(self.observation(space.low), self.observation(space.high), dtype=space.dtype.type)

    def observation(self, observation: Any) -> NDArray[Any]:
        """Return the image with the channels in the first axis."""
        return np.moveaxis(observation, 2, 0) if observation.ndim == 3 else observation[None]


class FrameStack(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Stack the last observations along a new first axis, oldest first. They are zeros before the first observation.

    Args:
        env: A gymnasium environment with arrays as observations.
        num_stack: Number of observations.

    Raises:
        ValueError: If the observation space is not a Box, or if `num_stack` is less than 1.
        TypeError: If `num_stack` is not an integer.
    """

    def __init__(self, env: Any, num_stack: int) -> None:
        super().__init__(as_gymnasium(env))
        check_counts(num_stack=num_stack)
        space = _box_of(env)
        self._frames: deque[Any] = deque(maxlen=num_stack)
        low, high = (np.stack([bound] * num_stack) for bound in (space.low, space.high))
        self.observation_space = Box(low, high, dtype=space.dtype.type)

    def _stacked(self, observation: Any) -> NDArray[Any]:
        self._frames.append(observation)
        return np.stack(self._frames)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        observation, info = self.env.reset(**kwargs)
        self._frames.extend([np.zeros_like(observation)] * (self._frames.maxlen or 1))
        return self._stacked(observation), info

    def step(self, action: Any) -> Any:
        """Execute an action."""
        observation, *rest = self.env.step(action)
        return (self._stacked(observation), *rest)


class AtariPreprocessing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Preprocess an Atari game like `gymnasium.wrappers.AtariPreprocessing`, which needs the extra "atari".

    Args:
        env: A game of ale-py that executes each action once (`frameskip=1`).
        noop_max: Maximum number of no-op steps at the start of an episode.
        frame_skip: Number of frames for which an action is repeated.
        screen_size: Height and width of the images in pixels.
        terminal_on_life_loss: True to end an episode when a life is lost.
        grayscale_obs: True for greyscale images [H, W], False for images [H, W, 3].
        grayscale_newaxis: True for greyscale images [H, W, 1].
        scale_obs: True for float32 images in [0, 1], False for uint8.
    """

    def __init__(
        self, env: Any, noop_max: int = 30, frame_skip: int = 4, screen_size: int = 84,
        terminal_on_life_loss: bool = False, grayscale_obs: bool = True, grayscale_newaxis: bool = False,
        scale_obs: bool = False,
    ) -> None:  # fmt: skip
        options = terminal_on_life_loss, grayscale_obs, grayscale_newaxis, scale_obs
        super().__init__(
            gymnasium.wrappers.AtariPreprocessing(as_gymnasium(env), noop_max, frame_skip, screen_size, *options)
        )


class Atari(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Preprocess an Atari game for training or evaluation: greyscale images [1, 84, 84], or stacks of them.

    In training, an episode ends when a life is lost, and rewards are replaced by their signs.

    Args:
        env: A game of ale-py that executes each action once (`frameskip=1`).
        num_stack: Number of images in an observation [num_stack, 84, 84]. If None, one.
        is_eval: True for evaluation.
    """

    def __init__(self, env: Any, num_stack: int | None = None, is_eval: bool = False) -> None:
        env = AtariPreprocessing(env, terminal_on_life_loss=not is_eval)
        env = env if is_eval else ClipRewardEnv(env)
        super().__init__(ChannelFirst(env) if num_stack is None else FrameStack(env, num_stack))


class GoalConcatWrapper(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Concatenate the observation and the goal of an environment with dicts as observations.

    Args:
        env: A gymnasium environment with dicts of arrays as observations.
        observation_key: Key of the observation.
        goal_key: Key of the goal.
        tuple_observation: True to return a tuple of the observation and the goal instead.

    Raises:
        ValueError: If the observation space is not a Dict with Boxes under both keys.
    """

    def __init__(
        self,
        env: Any,
        observation_key: str = "observation",
        goal_key: str = "desired_goal",
        tuple_observation: bool = False,
    ) -> None:
        super().__init__(as_gymnasium(env))
        self._keys, self._as_tuple = (observation_key, goal_key), tuple_observation
        spaces = dict(getattr(env.observation_space, "spaces", {}))
        if any(space_kind(spaces.get(key)) != "box" for key in self._keys):
            raise ValueError(f"env has the observation space {env.observation_space}, expected a Dict of {self._keys}")
        first, second = (spaces[key] for key in self._keys)
        bounds = np.concatenate([first.low, second.low]), np.concatenate([first.high, second.high])
        self.observation_space = Tuple([first, second]) if tuple_observation else Box(*bounds, dtype=first.dtype.type)

    def observation(self, observation: Any) -> Any:
        """Return the observation and the goal."""
        return goal_observation(observation, *self._keys, self._as_tuple)


def goal_observation(observation: Any, observation_key: str, goal_key: str, as_tuple: bool) -> Any:
    """Return the observations and the goals in a dict of arrays as a tuple, or concatenated along the last axis."""
    parts = observation[observation_key], observation[goal_key]
    return parts if as_tuple else np.concatenate(parts, axis=-1)
