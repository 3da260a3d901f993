"""Observations made of the last few frames, which share their memory."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.spaces import box_class, space_kind
from pfrl_like.wrappers.warp_frame import stack_axis_of
from pfrl_like.wrappers.wrapper import Wrapper


class LazyFrames:
    """Frames that become one array only when it is asked for.

    Consecutive stacks hold the same frames, so each is in memory once; replay buffers keep it so.

    Args:
        frames: Arrays of one shape and dtype, which nobody changes any more.
        stack_axis: Axis along which they are joined.
    """

    def __init__(self, frames: Sequence[NDArray[Any]], stack_axis: int = 2) -> None:
        self.stack_axis = stack_axis
        self._frames = frames

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        shape = list(self._frames[0].shape)
        shape[self.stack_axis] *= len(self._frames)
        return tuple(shape)

    @property
    def newest(self) -> NDArray[Any]:
        """The last of the frames."""
        return self._frames[-1]

    @property
    def ndim(self) -> int:
        """Number of its axes."""
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
    """Observe the last `k` frames, as `LazyFrames`; the first one of an episode counts `k` times.

    Args:
        env: Environment with images as observations.
        k: How many frames.
        channel_order: "hwc" to join them along the last of three axes, "chw" along the first.

    Raises:
        ValueError: If the observation space is no Box, `k` is less than 1, or the order is another one.
    """

    def __init__(self, env: Any, k: int, channel_order: str = "hwc") -> None:
        super().__init__(env)
        check_counts(k=k)
        self.k = k
        self.stack_axis = stack_axis_of(channel_order)
        self.frames: deque[NDArray[Any]] = deque(maxlen=int(k))
        self.observation_space = stacked_space(env.observation_space, k, self.stack_axis)

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode; keyword arguments go to the environment."""
        self.frames.clear()
        return super().reset(**kwargs)

    def observation(self, observation: Any) -> LazyFrames:
        """The stack that ends with this frame."""
        return push_frame(self.frames, observation, self.stack_axis)


def push_frame(frames: deque[NDArray[Any]], frame: Any, stack_axis: int) -> LazyFrames:
    """Add a copy of a frame to the last ones, as often as needed if there are none; returns their stack."""
    missing = (frames.maxlen or 1) - len(frames)
    frames.extend([np.array(frame)] * max(1, missing))
    return LazyFrames(list(frames), stack_axis)


def stacked_space(space: Any, k: int, stack_axis: int) -> Any:
    """The space of `k` observations joined along an axis.

    Raises:
        ValueError: If it is no Box or has no such axis.
    """
    if space_kind(space) != "box" or len(space.shape) <= stack_axis:
        raise ValueError(f"env has the observation space {space}, expected a Box of more than {stack_axis} axes")
    low, high = (np.concatenate([bound] * k, axis=stack_axis) for bound in (space.low, space.high))
    return box_class(space)(low, high, dtype=space.dtype.type)
