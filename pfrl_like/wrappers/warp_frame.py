"""Screens as small grey images."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.spaces import box_class, space_kind
from pfrl_like.wrappers.wrapper import Wrapper

_STACK_AXES = {"hwc": 2, "chw": 0}
_GREY_BITS = 15
_GREY = np.array([9798, 19235, 3735], np.float32)  # 0.299, 0.587, 0.114 of 2**15


class WarpFrame(Wrapper):
    """Turn screens into grey images of 84x84 pixels, uint8 (Mnih et al. 2015, doi:10.1038/nature14236).

    Each pixel is the mean of the area that it covers. With OpenCV (the extra "atari") it takes half the time; without
    it Atari's screens give the same numbers.

    Args:
        env: Environment with screens [height, width, 3], or grey ones [height, width], uint8, as observations.
        channel_order: "hwc" for images [84, 84, 1], "chw" for [1, 84, 84].

    Raises:
        ValueError: If the observations have another form or are smaller than 84x84, or the order is another one.
    """

    width = 84
    height = 84

    def __init__(self, env: Any, channel_order: str = "hwc") -> None:
        super().__init__(env)
        axis = stack_axis_of(channel_order)
        space = env.observation_space
        shape: tuple[int, ...] = space.shape if space_kind(space) == "box" and space.dtype == np.uint8 else ()
        if shape[2:] not in ((), (3,)) or len(shape) < 2 or shape[0] < self.height or shape[1] < self.width:
            raise ValueError(
                f"env has the observation space {space}, expected screens [height, width, 3] or [height, width], "
                f"uint8, of at least {self.height}x{self.width} pixels"
            )
        self._shape = tuple(np.insert((self.height, self.width), axis, 1).tolist())
        self.observation_space = box_class(space)(0, 255, self._shape, np.uint8)

    def observation(self, observation: Any) -> NDArray[np.uint8]:
        """The small grey image of a screen."""
        grey = to_grey(observation) if observation.ndim == 3 else observation
        return shrink(grey, self.height, self.width).reshape(self._shape)


def stack_axis_of(channel_order: str) -> int:
    """The axis of the channels.

    Raises:
        ValueError: If the order is neither "hwc" nor "chw".
    """
    if channel_order not in _STACK_AXES:
        raise ValueError(f'channel_order is {channel_order!r}, expected "hwc" or "chw"')
    return _STACK_AXES[channel_order]


def to_grey(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Luminance (ITU-R BT.601) of an RGB image [height, width, 3]: 0.299 R + 0.587 G + 0.114 B, rounded."""
    cv2 = _opencv()
    grey: NDArray[np.uint8]
    if cv2 is not None:
        grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    else:
        scaled = image.astype(np.float32) @ _GREY  # exact: below 2**24
        grey = ((scaled + 2 ** (_GREY_BITS - 1)) * 2.0**-_GREY_BITS).astype(np.uint8)
    return grey


def shrink(image: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Mean of the area of `image` [h, w] that each pixel of the smaller one covers, rounded."""
    cv2 = _opencv()
    small: NDArray[np.uint8]
    if cv2 is not None:
        small = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    else:
        narrow = _mean_rows(image.T.astype(np.float32), width).T
        small = np.rint(_mean_rows(narrow, height)).astype(np.uint8)
    return small


def _mean_rows(image: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    (first, *others), (weight, *weights) = _areas(len(image), count)
    mean: NDArray[np.float32] = image[first] * weight
    for rows, share in zip(others, weights, strict=True):
        mean += image[rows] * share
    return mean


@functools.cache
def _areas(size: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Which of `size` rows each of `count` larger ones covers, [k, count], and the shares of it, [k, count, 1]."""
    scale = size / count
    start = np.arange(count) * scale
    rows = np.floor(start).astype(np.int64) + np.arange(int(np.ceil(scale)) + 1)[:, None]
    overlap = np.minimum(start + scale, rows + 1) - np.maximum(start, rows)
    weights = np.where(overlap > 1e-3, overlap, 0.0) / scale
    used = weights.any(axis=1)
    return np.minimum(rows, size - 1)[used], weights[used, :, None].astype(np.float32)


@functools.cache
def _opencv() -> Any:
    """The module, None if it is not installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2
