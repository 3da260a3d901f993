"""Functions for observations that are an array, or a list of arrays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def map_parts(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Apply a function to an array, or to each array of a list or tuple, and return a list.

    Args:
        function: Function of as many arrays as there are further arguments.
        first: An array, or a list or tuple of arrays.
        *others: Values of the same form.
    """
    if isinstance(first, list | tuple):
        return [function(*parts) for parts in zip(first, *others, strict=True)]
    return function(first, *others)


def parts_of(observations: Any) -> list[NDArray[Any]]:
    """Return the arrays of observations as a list."""
    return [*observations] if isinstance(observations, list | tuple) else [observations]


def stack_parts(values: Sequence[Any], dtype: Any = None) -> Any:
    """Stack observations of the same form along a new first axis."""
    return map_parts(lambda *parts: np.stack(parts).astype(dtype or parts[0].dtype, copy=False), *values)


def create_zero_observation(observation: Any) -> Any:
    """Return an observation of zeros with the shapes and dtypes of another observation.

    Args:
        observation: An array, or a list or tuple of arrays.
    """
    return map_parts(np.zeros_like, observation)


def batch_pad_array(array: NDArray[Any], pad_size: int) -> NDArray[Any]:
    """Insert rows of zeros before an array.

    Args:
        array: The array, [n, ...].
        pad_size: Number of rows to insert.

    Returns:
        The array of the same dtype, [pad_size + n, ...].
    """
    return np.concatenate([np.zeros((pad_size, *array.shape[1:]), array.dtype), array])


def batch_pad_observations(observations: Any, pad_size: int) -> Any:
    """Insert rows of zeros before each array of observations.

    Args:
        observations: An array [n, ...], or a list or tuple of such arrays.
        pad_size: Number of rows to insert.
    """
    return map_parts(lambda array: batch_pad_array(array, pad_size), observations)


def recent_frames(observations: Any, index: int, n_frames: int) -> Any:
    """Return an observation with the observations before it, concatenated along the first axis, oldest first.

    Observations before the first one are zeros.

    Args:
        observations: Observations of an episode, an array [n, ...] or a list of such arrays.
        index: Index of the newest observation.
        n_frames: Number of observations to stack.
    """

    def stacked(array: NDArray[Any]) -> NDArray[Any]:
        if n_frames == 1:
            frame: NDArray[Any] = array[index]
            return frame
        frames = array[max(0, index + 1 - n_frames) : index + 1]
        return np.concatenate(batch_pad_array(frames, n_frames - len(frames)))

    return map_parts(stacked, observations)
