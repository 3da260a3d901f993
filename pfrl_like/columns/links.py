"""Batch fields from linked steps of a store: stacked images, next actions, and the rest of the episode."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.batch import Continuation, map_nested
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import Job, to_tensors
from pfrl_like.columns.steps import ENDED, Indices, Steps

#: Function from steps to image stacks [N, ...] that end with their observations, or next observations if `following`.
Stacks = Callable[..., NDArray[Any]]


def stacks(store: Steps, n_frames: int) -> Stacks | None:
    """A function that stacks a store's images; None if its observations are no arrays of three axes.

    An image is stacked with those of the preceding steps of its episode, as far as the store holds them; missing ones
    are zeros.
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
        step = store.predecessor[step]  # the predecessor of row 0, "none", is row 0
        at.append(store.obs_row[step])
        there.append(step > ENDED)
    newest_first = slice(n_frames - 1, None, -1)
    return joined_frames(store.obs, np.stack(at[newest_first], 1), np.stack(there[newest_first], 1))


def joined_frames(obs: Field, at: Indices, there: NDArray[np.bool_]) -> NDArray[Any]:
    """Arrays of several rows, joined along their first axis; missing ones are zeros.

    Args:
        obs: The field of the arrays.
        at: Their rows, shape [N, n], oldest first; any row for a missing one.
        there: False for a missing one, shape [N, n].
    """
    frames: NDArray[Any] = obs.stacked(at.ravel())
    frames = frames.reshape(*at.shape, *frames.shape[1:])
    frames[~there] = 0
    return frames.reshape(len(at), at.shape[1] * frames.shape[2], *frames.shape[3:])


def next_actions(store: Steps, last: Indices, device: torch.device | str) -> Any:
    """The actions of the steps after these, shape [N, ...], for `Batch.next_action`.

    The action after an episode's last step, or after the newest step of a running one, is unknown: NaN, or -1 for
    integers.
    """
    assert store.action is not None
    following = store.successor[last]
    known = following > ENDED
    jobs = store.action.jobs(np.where(known, following, last))
    *actions, there = to_tensors([*jobs, (known, np.arange(len(last)))], device)

    def marked(action: torch.Tensor) -> torch.Tensor:
        rows = there.view(-1, *[1] * (action.ndim - 1))
        return action.where(rows, torch.nan) if action.is_floating_point() else action.long().where(rows, -1)

    return map_nested(marked, store.action.build(actions))


def packed(lengths: Indices) -> tuple[Indices, Indices]:
    """Time step and sequence number of each row of packed sequences (time first) of these non-increasing lengths."""
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
    """The steps after these, for `Batch.continuation`.

    Args:
        store: The store.
        last: The steps.
        horizon: Number of steps after each of them, at most to the end of its episode. Steps found for one of them
            also continue the others, which may then have more than `horizon` steps.
        gamma: Discount factor per step.
        device: Device of the tensors.
        observed: Function that gives the observations of steps as tensors, or with `following=True` those after them;
            None for the stored ones.

    Raises:
        ValueError: If the horizon is not positive.
    """
    assert store.obs is not None
    if not horizon > 0:
        raise ValueError(f"continuation: got {horizon!r}, expected a number of steps, infinity for all, or 0 for none")
    steps, first, after = _linked(store, last, horizon)
    if store.lacks_next:
        store.refuse_missing_next(steps)
    goes_on = ~store.terminal[steps]
    columns = (
        store.reward[steps].astype(np.float32), (gamma * goes_on).astype(np.float32), first, after,
        np.flatnonzero((after < 0) & goes_on),
    )  # fmt: skip
    jobs: list[Job] = [(column, np.arange(len(column))) for column in columns]
    obs_jobs = store.obs.jobs(store.next_row[steps]) if observed is None else []
    reward, discount, firsts, afters, cut, *obs = to_tensors([*jobs, *obs_jobs], device)
    next_obs = observed(steps, following=True) if observed else store.obs.build(obs)
    return Continuation(firsts, reward, discount, next_obs, afters, cut)


def _linked(store: Steps, last: Indices, horizon: float) -> tuple[Indices, Indices, Indices]:
    """The steps that follow those in `last`, each once, with links between them as positions among them, -1 for none.

    The cost depends on the number of steps, not on the size of the store.

    Returns:
        The following steps; for each step in `last` the position of its successor; for each following step the position
        of its successor.
    """
    place = store.spare_places.pop() if store.spare_places else np.empty(0, np.int64)  # position by step, else -1
    if len(place) != store.steps.size:
        place = np.full(store.steps.size, -1)
    first = np.maximum(store.successor[last], ENDED)  # the newest step of a running episode has no successor yet
    found: list[Indices] = []
    count, step = 0, np.unique(first)
    step = step[step > ENDED]
    while len(step) and len(found) < horizon:
        place[step] = np.arange(count, count + len(step))
        count += len(step)
        found.append(step)
        step = store.successor[step]
        step = step[step > ENDED]
        step = step[place[step] < 0]
    steps = np.concatenate([*found, np.zeros(0, np.int64)])
    links = place[first], place[np.maximum(store.successor[steps], ENDED)]
    place[steps] = -1
    store.spare_places.append(place)
    return steps, *links
