"""What comes before steps of a store: the images that are stacked with theirs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.field import Field
from pfrl_like.columns.steps import ENDED, Indices, Steps

#: Stacks that end with the observations of steps, [N, ...], or with those after them if `following`.
Stacks = Callable[..., NDArray[Any]]


def stacks(store: Steps, n_frames: int) -> Stacks | None:
    """What stacks a store's images; None if its observations are no arrays of three axes.

    An image is stacked with those of the steps before it in its episode, as far as the store holds them; zeros stand
    for the others.
    """
    obs = store.obs
    if obs is None or obs.structure != 0 or len(obs.leaves[0].shape) != 3:
        return None
    store.link_back()
    return partial(_stacked, store, n_frames)


def _stacked(store: Steps, n_frames: int, rows: Indices, *, following: bool = False) -> NDArray[Any]:
    assert store.obs is not None
    at, there, step = [store.obs_row[rows]], [rows > ENDED], rows
    if following:
        at, there = [store.next_row[rows], *at], there * 2
    while len(at) < n_frames:
        step = store.predecessor[step]  # of what is not there, row 0, it is that row again
        at.append(store.obs_row[step])
        there.append(step > ENDED)
    newest_first = slice(n_frames - 1, None, -1)
    return joined_frames(store.obs, np.stack(at[newest_first], 1), np.stack(there[newest_first], 1))


def joined_frames(obs: Field, at: Indices, there: NDArray[np.bool_]) -> NDArray[Any]:
    """Arrays in some rows, joined along their first axis; zeros where there is none.

    Args:
        obs: The arrays.
        at: Their rows, [N, n], oldest first; any row where there is none.
        there: Whether there is one, [N, n].
    """
    frames: NDArray[Any] = obs.stacked(at.ravel())
    frames = frames.reshape(*at.shape, *frames.shape[1:])
    frames[~there] = 0
    return frames.reshape(len(at), at.shape[1] * frames.shape[2], *frames.shape[3:])
