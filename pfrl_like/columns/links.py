"""Functions that follow the links between steps: stacked images, next actions and continuations of a batch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Continuation, map_nested
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import Job, to_tensors
from pfrl_like.columns.steps import ENDED, Indices, Steps

#: Function that takes rows of steps and returns stacks of images [N, ...]. The newest image of a stack is the
#: observation of the step or, if the function is called with `following=True`, its next observation.
Stacks = Callable[..., NDArray[Any]]


def stacks(store: Steps, n_frames: int, *, vectors: bool = False) -> Stacks | None:
    """Return a function that stacks stored images. If observations are not arrays with three axes, return None.

    An image is stacked with the images of the previous steps of its episode. Images that are not stored are zeros.

    Args:
        store: The columns.
        n_frames: Number of images to stack.
        vectors: True to stack arrays with any number of axes, at least one.
    """
    obs = store.obs
    if obs is None or obs.structure != 0 or (len(obs.leaves[0].shape) != 3 and not vectors):
        return None
    store.link_back()

    def stacked(rows: Indices, *, following: bool = False) -> NDArray[Any]:
        at, exists, step = [store.obs_row[rows]], [rows > ENDED], rows
        if following:
            at, exists = [store.next_row[rows], *at], exists * 2
        while len(at) < n_frames:
            step = store.predecessor[step]  # row 0 means "none" and is its own predecessor
            at.append(store.obs_row[step])
            exists.append(step > ENDED)
        newest_first = slice(n_frames - 1, None, -1)
        return joined_frames(obs, np.stack(at[newest_first], 1), np.stack(exists[newest_first], 1))

    return stacked


def joined_frames(obs: Field, at: Indices, exists: NDArray[np.bool_]) -> NDArray[Any]:
    """Concatenate arrays of several rows along their first axis. Missing arrays are zeros.

    Args:
        obs: The field of the arrays.
        at: Rows of the arrays, shape [N, n], oldest first. For a missing array, any row.
        exists: False for a missing array, shape [N, n].
    """
    frames: NDArray[Any] = obs.stacked(at.ravel())
    frames = frames.reshape(*at.shape, *frames.shape[1:])
    frames[~exists] = 0
    return frames.reshape(len(at), at.shape[1] * frames.shape[2], *frames.shape[3:])


def next_actions(store: Steps, last: Indices, device: torch.device | str) -> Any:
    """Return the actions of the steps after the steps `last`, shape [N, ...], for `Batch.next_action`.

    The action after the last step of an episode, or after the newest step of a running episode, is unknown. It is NaN,
    or -1 for integers.
    """
    assert store.action is not None
    following = store.successor[last]
    known = following > ENDED
    jobs = store.action.jobs(np.where(known, following, last))
    *actions, is_known = to_tensors([*jobs, (known, np.arange(len(last)))], device)

    def marked(action: torch.Tensor) -> torch.Tensor:
        rows = is_known.view(-1, *[1] * (action.ndim - 1))
        return action.where(rows, torch.nan) if action.is_floating_point() else action.long().where(rows, -1)

    return map_nested(marked, store.action.build(actions))


def packed(lengths: Indices) -> tuple[Indices, Indices]:
    """Return the time step and the sequence number of each row of packed sequences. `lengths` must not increase."""
    time, sequence = np.nonzero(np.arange(lengths.max(initial=0))[:, None] < lengths)
    return time, sequence


def continuation(
    store: Steps,
    last: Indices,
    horizon: float,
    gamma: float,
    device: torch.device | str,
    observed: Callable[..., Any] | None = None,
) -> Continuation:
    """Return the steps after the steps `last`, for `Batch.continuation`.

    Args:
        store: The columns.
        last: Last step of each item.
        horizon: Number of steps after each item, if the episode is long enough. If the steps after another item of the
            same episode overlap with these steps or follow directly, they are included, too.
        gamma: Discount factor per step.
        device: Device of the tensors.
        observed: Function that returns the observations of steps as tensors, or, if called with `following=True`, their
            next observations. If None, the result has the stored observations.

    Raises:
        ValueError: If the horizon is not positive.
    """
    assert store.obs is not None
    if not horizon > 0:
        raise ValueError(f"continuation: got {horizon!r}, expected a number of steps > 0, or infinity for all steps")
    steps, first, after = _linked(store, last, horizon)
    if store.lacks_next:
        store.check_next_exists(steps)
    continues = ~store.terminal[steps]
    columns = (
        store.reward[steps].astype(np.float32), (gamma * continues).astype(np.float32), first, after,
        np.flatnonzero((after < 0) & continues),
    )  # fmt: skip
    jobs: list[Job] = [(column, np.arange(len(column))) for column in columns]
    obs_jobs = store.obs.jobs(store.next_row[steps]) if observed is None else []
    reward, discount, firsts, afters, cut, *obs = to_tensors([*jobs, *obs_jobs], device)
    next_obs = observed(steps, following=True) if observed else store.obs.build(obs)
    return Continuation(firsts, reward, discount, next_obs, afters, cut)


def _linked(store: Steps, last: Indices, horizon: float) -> tuple[Indices, Indices, Indices]:
    """Return the steps that follow the steps `last`, each once, and the links between them.

    The cost depends on the number of these steps, not on the number of stored steps.

    Returns:
        The following steps; for each step in `last` the index of its successor in the following steps; for each
        following step the index of its successor. An index is -1 if there is no successor.
    """
    place = store.spare_places.pop() if store.spare_places else np.empty(0, np.int64)  # position by step, else -1
    if len(place) != store.steps.size:
        place = np.full(store.steps.size, -1)
    first = np.maximum(store.successor[last], ENDED)  # the newest step of a running episode has no successor yet
    levels: list[Indices] = []
    count, step = 0, np.unique(first)
    step = step[step > ENDED]
    while len(step) and len(levels) < horizon:
        place[step] = np.arange(count, count + len(step))
        count += len(step)
        levels.append(step)
        step = store.successor[step]
        step = step[step > ENDED]
        step = step[place[step] < 0]
    steps = np.concatenate([*levels, np.zeros(0, np.int64)])
    links = place[first], place[np.maximum(store.successor[steps], ENDED)]
    place[steps] = -1
    store.spare_places.append(place)
    return steps, *links
