"""Extremes and moments of a column of episodes, read piece by piece."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.utils.checks import check_finite

#: Most numbers that are looked at (as float64) at once, so that data may be larger than memory.
PIECE = 2**20


def extremes(source: Any, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smallest and largest value of each entry, both of the shape of one row; arguments and errors as `pieces`."""
    low = high = None
    for piece in pieces(source, column):
        least, most = piece.min(axis=0), piece.max(axis=0)
        low = least if low is None else np.minimum(low, least)
        high = most if high is None else np.maximum(high, most)
    return np.asarray(low, np.float64), np.asarray(high, np.float64)


def moments(source: Any, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation (of the population) of each entry; arguments and errors as `pieces`.

    They are taken of the distance from the first row, so that an entry that never changes has a deviation of exactly 0.
    """
    n, first, total, squares = 0, np.float64(0), np.float64(0), np.float64(0)
    for piece in pieces(source, column):
        if n == 0:
            first = piece[0].astype(np.float64)
        distance = piece.astype(np.float64) - first
        n += len(distance)
        total = total + distance.sum(axis=0)
        squares = squares + np.square(distance).sum(axis=0)
    mean = total / n
    return np.asarray(first + mean), np.sqrt(np.maximum(squares / n - np.square(mean), 0.0))


def returns(source: Any) -> list[float]:
    """Undiscounted returns of episodes: sums of the rewards that actions have brought.

    Args:
        source: A dataset, an episode, any number of these, or of arrays of the rewards [n] of one episode each.

    Raises:
        TypeError: As `pieces`.
        ValueError: As `pieces`.
        NonFiniteError: As `pieces`.
    """
    source = [*source] if isinstance(source, Iterator) else source
    for _ in pieces(source, "rewards"):
        pass  # what cannot be is refused there
    episodes = [source] if _is_array_of(source, "rewards") else getattr(source, "episodes", source)
    return [
        float(episode.compute_return() if hasattr(episode, "compute_return") else np.sum(_array(episode, "rewards")))
        for episode in episodes
    ]


def pieces(source: Any, column: str) -> Iterator[NDArray[Any]]:
    """The rows of a column, some at a time.

    Args:
        source: A dataset (with `episodes`), an episode (with the column as an attribute), an array or tensor of rows
            [N, ...], or any number of these.
        column: Which array of an episode, for instance "observations".

    Raises:
        TypeError: On what is none of these, and on values that are no numbers; actions have to be floating point.
        ValueError: If there is no row at all, or if rows have different shapes.
        NonFiniteError: On NaN and infinity, a `ValueError` as well.
    """
    shape, n = None, 0
    for where, rows in _arrays(source, column):
        shape = rows.shape[1:] if shape is None else shape
        if rows.ndim == 0 or rows.shape[1:] != shape:
            raise ValueError(f"{where} have shape {rows.shape}, expected rows of shape {shape}")
        if rows.dtype.kind not in ("f" if column == "actions" else "fiub"):
            raise TypeError(f"{where} have dtype {rows.dtype}, expected {_EXPECTED.get(column, 'numbers')}")
        step = max(1, PIECE // max(1, math.prod(shape)))
        for start in range(0, len(rows), step):
            piece = np.asarray(rows[start : start + step])
            check_finite(f"{where} from row {start} on" if start else where, piece)
            n += len(piece)
            yield piece
    if n == 0:
        raise ValueError(f"there are no {column} to fit a scaler to")


_EXPECTED = {"actions": "floating-point numbers, since the indices of discrete actions have no scale"}


def _arrays(source: Any, column: str) -> Iterator[tuple[str, Any]]:
    """(what it is called in messages, the array) of every array of rows."""
    if _is_array_of(source, column):
        yield column, _array(source, column)
        return
    episodes = getattr(source, "episodes", source)
    if isinstance(episodes, str | bytes | Mapping) or not isinstance(episodes, Iterable):
        raise TypeError(f"cannot fit a scaler to {_type(source)}: expected episodes, a dataset or an array of {column}")
    for index, episode in enumerate(episodes):
        where = f"{column} of episode {index}"
        if not _is_array_of(episode, column):
            raise TypeError(f"episode {index} is {_type(episode)}, expected an object with {column!r}, or an array")
        yield where, _array(episode, column)


def _is_array_of(value: Any, column: str) -> bool:
    return not hasattr(value, "episodes") and (hasattr(value, column) or hasattr(value, "__array__"))


def _array(value: Any, column: str) -> Any:
    """An episode's column as far as it was told, or an array itself; one that reads from a file stays as it is."""
    rows = value.told(column) if hasattr(value, "told") else getattr(value, column, value)
    if isinstance(rows, Tensor):
        rows = rows.detach().cpu().numpy()
    return rows if isinstance(getattr(rows, "dtype", None), np.dtype) else np.asarray(rows)


def _type(value: Any) -> str:
    return f"an object of type {type(value).__name__}"
