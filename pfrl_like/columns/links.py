"""What comes after steps of a store: the next action, and all steps to the end of the episode."""

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


def next_actions(store: Steps, last: Indices, device: torch.device | str) -> Any:
    """The actions of the steps after these, [N, ...], as `Batch.next_action` holds them.

    Nothing is known of the action after an episode's last step, nor of that after a running one's newest.
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
    """Step and sequence of each row of sequences of these falling lengths, packed time first."""
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
    """The steps after these, as `Batch.continuation` holds them.

    Args:
        store: The store.
        last: The steps.
        horizon: How many steps after each of them, as far as its episode goes; steps have each other's, too.
        gamma: Discount factor per step.
        device: Where the tensors go.
        observed: As of `Columns.gather`.

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
    """The steps after some, each once, and where among them stand the first one after each of those, and of these.

    -1 stands for none. What it costs depends on how many steps there are, not on the size of the store.
    """
    place = store.spare_places.pop() if store.spare_places else np.empty(0, np.int64)  # of each step, -1 of all others
    if len(place) != store.steps.size:
        place = np.full(store.steps.size, -1)
    first = np.maximum(store.successor[last], ENDED)  # after a running episode's newest step comes none yet
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
