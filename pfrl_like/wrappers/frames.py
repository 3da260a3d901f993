"""Wrappers for image observations: small greyscale images, and stacked frames."""

import functools
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorWrapper
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_choice, check_counts, takes_integral_floats
from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.wrappers.wrapper import Wrapper

_STACK_AXES = {"hwc": 2, "chw": 0}
_GREY_BITS = 15
_GREY = np.array([9798, 19235, 3735], np.float32)  # 0.299, 0.587 and 0.114, times 2**15


class WarpFrame(Wrapper):
    """Convert screens to greyscale images of 84x84 pixels, uint8 (Mnih et al. 2015, doi:10.1038/nature14236).

    Each output pixel is the mean over the input area that it covers. With OpenCV (the extra "atari"), the conversion
    takes half the time. For Atari screens, the results with and without OpenCV are equal.

    Args:
        env: Environment with uint8 observations: RGB images [height, width, 3] or greyscale images [height, width].
        channel_order: "hwc" for results [84, 84, 1], "chw" for results [1, 84, 84].

    Raises:
        ValueError: If the observations have a different shape or dtype or are smaller than 84x84, or if `channel_order`
            is neither "hwc" nor "chw".
    """

    width = 84
    height = 84

    def __init__(self, env: Any, channel_order: str = "hwc") -> None:
        super().__init__(env)
        axis = stack_axis_of(channel_order)
        space = env.observation_space
        shape: tuple[int, ...] = space.shape if space_kind(space) == "box" and space.dtype == np.uint8 else ()
        if shape[2:] not in ((), (3,)) or len(shape) < 2 or shape[0] < self.height or shape[1] < self.width:
            expected = f"uint8 [height, width, 3] or [height, width] of at least {self.height}x{self.width} pixels"
            raise ValueError(f"env has the observation space {space}, expected {expected}")
        self._shape = tuple(np.insert((self.height, self.width), axis, 1).tolist())
        self.observation_space = box_class(space)(0, 255, self._shape, np.uint8)

    def observation(self, frame: Any) -> NDArray[np.uint8]:
        """Return the greyscale image of 84x84 pixels."""
        grey = to_grey(frame) if frame.ndim == 3 else frame
        return shrink(grey, self.height, self.width).reshape(self._shape)


def stack_axis_of(channel_order: str) -> int:
    """Return the axis of the channels in an image with this channel order.

    Raises:
        ValueError: If `channel_order` is neither "hwc" nor "chw".
    """
    check_choice("channel_order", channel_order, _STACK_AXES)
    return _STACK_AXES[channel_order]


def to_grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luminance (ITU-R BT.601) of an RGB image [height, width, 3]: 0.299 R + 0.587 G + 0.114 B, rounded."""
    if (cv2 := _opencv()) is not None:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
    scaled = image.astype(np.float32) @ _GREY  # exact: below 2**24
    return np.asarray((scaled + 2 ** (_GREY_BITS - 1)) * 2.0**-_GREY_BITS).astype(np.uint8)


def shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return a smaller image. Each pixel is the rounded mean over the area of `image`, [h, w], that it covers."""
    if (cv2 := _opencv()) is not None:
        return np.asarray(cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA))
    narrow = _mean_rows(image.T.astype(np.float32), width).T
    return np.rint(_mean_rows(narrow, height)).astype(np.uint8)


def _mean_rows(image: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    (first, *others), (weight, *weights) = _areas(len(image), count)
    mean: NDArray[np.float32] = image[first] * weight
    for rows, share in zip(others, weights, strict=True):
        mean += image[rows] * share
    return mean


@functools.cache
def _areas(size: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the indices of the input rows that overlap each output row, [k, count], and weights, [k, count, 1]."""
    scale = size / count
    start = np.arange(count) * scale
    rows = np.floor(start).astype(np.int64) + np.arange(int(np.ceil(scale)) + 1)[:, None]
    overlap = np.minimum(start + scale, rows + 1) - np.maximum(start, rows)
    weights = np.where(overlap > 1e-3, overlap, 0.0) / scale
    used = weights.any(axis=1)
    return np.minimum(rows, size - 1)[used], weights[used, :, None].astype(np.float32)


@functools.cache
def _opencv() -> Any:
    """Return the module `cv2`. None if OpenCV is not installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2


class LazyFrames:
    """Stack of frames that concatenates them to one array only when the array is used.

    Consecutive observations share their frames, so that each frame is in memory once. Replay buffers also store each
    frame once.

    Args:
        frames: Arrays with the same shape and dtype. They must not be changed later.
        stack_axis: Axis along which the frames are concatenated.
    """

    def __init__(self, frames: Sequence[NDArray[Any]], stack_axis: int = 2) -> None:
        self.stack_axis, self._frames = stack_axis, frames

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        shape = list(self._frames[0].shape)
        shape[self.stack_axis] *= len(self._frames)
        return tuple(shape)

    @property
    def newest(self) -> NDArray[Any]:
        """The last frame."""
        return self._frames[-1]

    @property
    def ndim(self) -> int:
        """Number of axes of the array."""
        return self._frames[0].ndim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        return self._frames[0].dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        joined = np.concatenate(self._frames, axis=self.stack_axis)
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]


class FrameStack(Wrapper):
    """Stack the last `k` frames as `LazyFrames`. The first stack of an episode contains the first frame `k` times.

    Args:
        env: Environment with images as observations.
        k: Number of frames.
        channel_order: "hwc" to concatenate frames along the last of three axes, "chw" along the first.

    Raises:
        ValueError: If the observation space is not a Box, if `k` is below 1, or if `channel_order` is neither "hwc" nor
            "chw".
    """

    @takes_integral_floats
    def __init__(self, env: Any, k: int, channel_order: str = "hwc") -> None:
        super().__init__(env)
        check_counts(k=k)
        self.k, self.stack_axis = k, stack_axis_of(channel_order)
        self.frames: deque[NDArray[Any]] = deque(maxlen=int(k))
        self.observation_space = stacked_space(env.observation_space, k, self.stack_axis)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        self.frames.clear()
        return super().reset(**kwargs)

    def observation(self, observation: Any) -> LazyFrames:
        """Append a frame and return the stack of the last `k` frames."""
        return push_frame(self.frames, observation, self.stack_axis)


def push_frame(frames: deque[NDArray[Any]], frame: Any, stack_axis: int) -> LazyFrames:
    """Append a copy of `frame` to `frames`, or fill an empty deque with copies of `frame`. Return the stack."""
    missing = (frames.maxlen or 1) - len(frames)
    frames.extend([np.array(frame)] * max(1, missing))
    return LazyFrames(list(frames), stack_axis)


def stacked_space(space: Any, k: int, stack_axis: int) -> Any:
    """Return the space of `k` observations that are concatenated along an axis.

    Raises:
        ValueError: If `space` is not a Box, or if it has no axis `stack_axis`.
    """
    if space_kind(space) != "box" or len(space.shape) <= stack_axis:
        raise ValueError(f"env has the observation space {space}, expected a Box of more than {stack_axis} axes")
    low, high = (np.concatenate([bound] * k, axis=stack_axis) for bound in (space.low, space.high))
    return box_class(space)(low, high, dtype=space.dtype.type)


class GymnasiumFrameStack(VectorWrapper):
    """Stack the last `k` frames of each environment. The first stack of an episode has the first frame `k` times.

    With the autoreset mode NEXT_STEP, a new stack starts in the step after the end of an episode. With SAME_STEP, a new
    stack starts in the step that ends the episode, and `info["final_obs"]` contains the last stack of the episode.

    Args:
        env: Vector environment with images as observations.
        k: Number of frames.
        stack_axis: Axis of an image along which the frames are concatenated.

    Raises:
        ValueError: If the observation space is not a Box with the axis `stack_axis`, or if `k` is below 1.
    """

    def __init__(self, env: Any, k: int, stack_axis: int = 0) -> None:
        super().__init__(env)
        check_counts(k=k)
        self.k = k
        self.single_observation_space = stacked_space(env.single_observation_space, k, stack_axis)
        self.stack_axis = range(len(self.single_observation_space.shape or ()))[stack_axis]  # convert a negative axis
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._mode = AutoresetMode(env.metadata["autoreset_mode"])
        self._stacks: Any = None
        self._ended = np.zeros(self.num_envs, np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start new episodes in all environments, or in the environments where `options["reset_mask"]` is True."""
        mask = True if options is None else options.get("reset_mask", True)  # `env.reset` removes the mask
        begins = np.broadcast_to(np.array(mask, np.bool_), self.num_envs)
        obs, info = self.env.reset(seed=seed, options=options)
        stacks = self._first_stacks(obs)
        if not begins.all():
            stacks[~begins] = self._stacks[~begins]
        self._stacks = stacks
        self._ended = self._ended & ~begins
        return self._stacks.copy(), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments."""
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
        """Return the stacks and the flags of the ended episodes."""
        return {"stacks": to_json(self._stacks), "ended": self._ended.tolist()}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
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
