"""Stacks of frames that share their frames, for example the observations of `FrameStack`."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.leaves import as_array

_SMALLEST_FRAME = 256  # in bytes; smaller frames are not shared, because the frame numbers would need too much memory
_DEEPEST_STACK = 16


class StackForm(NamedTuple):
    """Form of a stack of frames.

    Attributes:
        shape: Shape of the stack.
        dtype: Dtype of the frames.
        frame_shape: Shape of a frame.
        depth: Number of frames.
        axis: Axis along which the frames are stacked, after a reshape of the stack to `(*frame_shape[:axis], depth,
            *frame_shape[axis:])`.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    frame_shape: tuple[int, ...]
    depth: int
    axis: int

    def split(self, stack: Any) -> list[NDArray[Any]]:
        """Return the frames of a stack of this form, oldest first."""
        frames = frames_of(stack)
        if frames is not None:
            return frames
        parts = np.asarray(stack).reshape(*self.frame_shape[: self.axis], self.depth, *self.frame_shape[self.axis :])
        return list(np.moveaxis(parts, self.axis, 0))

    def join(self, frames: NDArray[Any]) -> NDArray[Any]:
        """Return the stacks, [..., *shape], of their frames, [..., depth, *frame_shape]."""
        leading = frames.shape[: frames.ndim - 1 - len(self.frame_shape)]
        return np.moveaxis(frames, len(leading), len(leading) + self.axis).reshape(*leading, *self.shape)


def frames_of(value: Any) -> list[Any] | None:
    """Return the arrays in the list `_frames` of an object, or None if the object has no such list."""
    frames = getattr(value, "_frames", None)
    if isinstance(frames, list | tuple) and frames and all(isinstance(frame, np.ndarray) for frame in frames):
        return list(frames)
    return None


def stack_form(value: Any) -> StackForm | None:
    """Return the form of a stack; None if `value` is not a stack of frames, or if its frames are small.

    An array is treated as a stack if its dtype is uint8, it has at least three axes, its first axis has length 2 to 16,
    and its frames have at least 256 bytes. It does no harm if this is true for a colour image. A stack that does not
    meet these conditions needs `depth` times the memory.
    """
    array = as_array(value)
    if array is None:
        return None
    frames = frames_of(value)
    if frames is None:
        if array.dtype != np.uint8 or array.ndim < 3 or not 2 <= len(array) <= _DEEPEST_STACK:
            return None
        if array[0].nbytes < _SMALLEST_FRAME:
            return None
        return StackForm(array.shape, array.dtype, array.shape[1:], len(array), axis=0)
    shape, dtype, depth = frames[0].shape, frames[0].dtype, len(frames)
    if any(frame.shape != shape or frame.dtype != dtype for frame in frames) or dtype != array.dtype:
        return None
    for axis in range(len(shape) + 1):
        joined = np.moveaxis(np.stack(frames), 0, axis)  # along a new axis or (reshaped) an axis of the frames
        if joined.size == array.size and joined.reshape(array.shape).tobytes() == array.tobytes():
            return StackForm(array.shape, dtype, shape, depth, axis)
    return None


class FrameStack:
    """One stack of frames. It becomes an array only when it is used, like `wrappers.frames.LazyFrames`.

    Args:
        frames: The frames, oldest first. Stacks may share them.
        form: Form of the stack.
    """

    def __init__(self, frames: list[NDArray[Any]], form: StackForm) -> None:
        self._frames, self.form = frames, form
        self.shape, self.dtype, self.ndim = form.shape, form.dtype, len(form.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        joined = self.form.join(np.stack(self._frames))
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        return np.asarray(self)[index]


@dataclasses.dataclass(frozen=True, eq=False)
class FrameStacks:
    """Array of stacks that contains each frame once.

    Attributes:
        frames: The frames, [n, *frame_shape].
        index: For each stack the numbers of its frames, oldest first, [..., depth].
        form: Form of each stack.
        is_lazy: True if the stacks were objects with a list of frames, False if they were arrays.
    """

    frames: NDArray[Any]
    index: NDArray[np.int32]
    form: StackForm
    is_lazy: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array of stacks."""
        return (*self.index.shape[:-1], *self.form.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the frames."""
        return self.form.dtype

    @property
    def nbytes(self) -> int:
        """Number of bytes of the frames and their numbers."""
        return self.frames.nbytes + self.index.nbytes

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, at: Any) -> "FrameStacks":
        """Return the stacks at an index of the leading axes. They share the frames."""
        return dataclasses.replace(self, index=self.index[at])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        joined = self.form.join(self.frames[self.index])
        return joined if dtype is None else joined.astype(dtype, copy=False)

    def stacks(self) -> list[FrameStack]:
        """Return the stacks, which share the frame objects. `index` must have two axes, [N, depth]."""
        frames = list(self.frames)
        return [FrameStack([frames[number] for number in row], self.form) for row in self.index.tolist()]


def share_frames(values: Sequence[Any], previous: Sequence[int]) -> FrameStacks | None:
    """Return stacks as `FrameStacks`; None if the first value is not a stack of frames.

    Args:
        values: N stacks of the same form: arrays, or objects with their frames in a list `_frames`.
        previous: For each stack, the number of the stack of the previous step of its episode, or -1. A previous stack
            precedes its successor.

    Raises:
        ValueError: If a stack has another shape or dtype than the first one.
    """
    form = stack_form(values[0])
    if form is None:
        return None
    frames: list[NDArray[Any]] = []
    rows: list[list[int]] = []
    for value, before in zip(values, previous, strict=True):
        row: list[int] = []
        parts = form.split(value)
        if len(parts) != form.depth or parts[0].shape != form.frame_shape or parts[0].dtype != form.dtype:
            got = f"{len(parts)} frames of shape {parts[0].shape}, {parts[0].dtype}"
            expected = f"{form.depth} of shape {form.frame_shape}, {form.dtype}"
            raise ValueError(f"obs is a stack of {got}, expected {expected} as in the first step")
        for j, frame in enumerate(parts):
            candidates = rows[before][j + 1 : j + 2] if before >= 0 else []
            candidates += row[-1:]
            row.append(next((n for n in candidates if _equal(frames[n], frame)), len(frames)))
            if row[-1] == len(frames):
                frames.append(frame)
        rows.append(row)
    return FrameStacks(np.stack(frames), np.array(rows, np.int32), form, frames_of(values[0]) is not None)


def _equal(frame: NDArray[Any], other: NDArray[Any]) -> bool:
    return frame is other or frame.tobytes() == other.tobytes()
