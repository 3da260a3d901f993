"""What comes after steps of a store: the next action, and all steps to the end of the episode."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from pfrl_like.batch import Future, map_nested
from pfrl_like.columns.gather import to_tensors
from pfrl_like.columns.leaves import Job
from pfrl_like.columns.steps import ENDED, Indices, Steps


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


def future(
    store: Steps,
    last: Indices,
    horizon: float,
    gamma: float,
    device: torch.device | str,
    observed: Callable[..., Any] | None = None,
) -> Future:
    """The steps after these, as `Batch.future` holds them.

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
        raise ValueError(f"future: got {horizon!r}, expected a number of steps, infinity for all, or 0 for none")
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
    return Future(firsts, reward, discount, next_obs, afters, cut)


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
