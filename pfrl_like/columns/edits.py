"""Changes of stored steps, and patches: what has changed since steps were written to a file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.leaves import as_array, describe, expect
from pfrl_like.columns.steps import ENDED, OPTIONAL, RUNNING, Indices, Steps
from pfrl_like.utils.checks import as_reward

#: Which column of `Steps.edited` a key counts in; all others in the last one.
_STATE, _NEXT_STATE, _VALUES = range(3)
_OBSERVATIONS = {"state": _STATE, "next_state": _NEXT_STATE}


def edit(store: Steps, row: int, changes: Mapping[str, Any], num_steps: int) -> None:
    """Change values of a stored step, in every item that shows it.

    An observation gets a row of its own: the steps before and after, which may have shown the same one, keep theirs.

    Args:
        store: The store.
        row: The step.
        changes: New values by the keys of `Columns.transitions`.
        num_steps: Steps per item, of which the terminal ones end the n-step returns.

    Raises:
        ValueError: If a key is not one of this store, or a value does not fit its column; nothing is changed.
    """
    checked = {name: _checked(store, name, value) for name, value in changes.items()}
    store.edits += 1
    for name, value in checked.items():
        if name == "state":
            _put_state(store, row, _stored(store, value))
        elif name == "next_state":
            _put_next_state(store, row, None if value is None else _stored(store, value))
        elif name == "reward":
            store.reward[row] = value
        elif name == "is_state_terminal":
            _put_terminal(store, row, value, num_steps)
        elif name == "action":
            assert store.action is not None
            store.action.put(row, value)
        else:
            if name not in store.extras:
                store.add_extra(name)
            store.extras[name].replace(row, value)
        _mark(store, row, _OBSERVATIONS.get(name, _VALUES))


def _checked(store: Steps, name: str, value: Any) -> Any:
    """A new value in the form in which it is stored.

    Raises:
        ValueError: If it does not fit.
        TypeError: If it is a reward that is no number.
    """
    assert store.obs is not None and store.action is not None
    if name in _OBSERVATIONS:
        return None if value is None and name == "next_state" else store.obs.check(value, name)
    if name == "action":
        return store.action.check(value, name)
    if name == "reward":
        return as_reward(value)
    if name == "is_state_terminal":
        array = as_array(value)
        if array is None or array.shape != () or array not in (0, 1):
            raise ValueError(f"is_state_terminal: got {value!r:.80}, expected True or False")
        return bool(array)
    if name in store.extras:
        return store.extras[name].check(value)
    if name not in OPTIONAL:
        keys = ["state", "action", "reward", "next_state", "next_action", "is_state_terminal", *store.extras]
        raise ValueError(
            f"{name}: got {describe(value)} for a new key of a stored transition, expected one of the keys "
            f"{[*dict.fromkeys(keys)]}; what is stored with a step is given to `append`, as a keyword"
        )
    return value


def _stored(store: Steps, leaves: list[Any]) -> int:
    """A row with an observation that no other one is compared with."""
    assert store.obs is not None
    store.obs_rows.reserve(1)
    row = store.obs_rows.free.pop()
    store.obs.put(row, leaves)
    store.obs.forget(row)
    return row


def _put_state(store: Steps, row: int, at: int) -> None:
    store.link_back()
    before, previous = store.obs_row.item(row), store.predecessor.item(row)
    if store.next_row.item(row) == before:  # which says that there is none
        store.next_row[row] = at
    store.obs_row[row] = at
    if not previous or store.next_row.item(previous) != before:
        store.free_observation(before)


def _put_next_state(store: Steps, row: int, at: int | None) -> None:
    before, own, successor = store.next_row.item(row), store.obs_row.item(row), store.successor.item(row)
    if successor == RUNNING:
        shown = any(run.pending == before for run in store.running.values())
    else:
        shown = store.obs_row.item(successor) == before
    store.next_row[row] = own if at is None else at
    if before != own and not shown:
        store.free_observation(before)
    _look_for_missing_next(store, row)


def _put_terminal(store: Steps, row: int, terminal: bool, num_steps: int) -> None:
    store.terminal[row] = terminal
    store.has_inner_ends |= terminal and store.successor.item(row) != ENDED
    _look_for_missing_next(store, row)
    if num_steps > 1:
        store.link_back()
        first = [row]  # of all windows with this step
        while len(first) < num_steps and (previous := store.predecessor.item(first[-1])):
            first.append(previous)
        store.find_windows(np.array(first), num_steps)


def _look_for_missing_next(store: Steps, row: int) -> None:
    store.lacks_next |= bool(store.next_row[row] == store.obs_row[row] and not store.terminal[row])


def _mark(store: Steps, rows: Any, part: int) -> None:
    if store.edited is None:
        store.edited = store.steps.array((3,), np.int64)
    store.edited[rows, part] = store.edits


# What changes of checkpoints that write every step once


def changed_since(store: Steps, rows: Indices, since: Any) -> NDArray[np.bool_]:
    """Which parts of steps (state, next state, anything else) have changed since an edit of this number, [n, 3]."""
    if store.edited is None:
        return np.zeros((len(rows), 3), np.bool_)
    changed: NDArray[np.bool_] = store.edited.take(rows, 0) > np.reshape(since, (-1, 1))
    return changed


def dump_patch(store: Steps, rows: Indices, since: Any) -> dict[str, NDArray[Any]]:
    """What `apply_patch` needs to change steps as they have been changed since edits of these numbers, [n].

    Returns:
        Arrays for a file; none if nothing has changed.
    """
    changed = changed_since(store, rows, since)
    if not changed.any():
        return {}
    assert store.obs is not None and store.action is not None
    of_state, of_next, of_values = (np.flatnonzero(part) for part in changed.T)
    own, following, values = rows[of_state], rows[of_next], rows[of_values]
    told = store.next_row[following] != store.obs_row[following]
    arrays: dict[str, NDArray[Any]] = {
        "patch/states": of_state, "patch/next_states": of_next, "patch/told": told, "patch/values": of_values,
        "patch/reward": store.reward[values], "patch/terminal": store.terminal[values],
    }  # fmt: skip
    arrays |= store.obs.dump(store.obs_row[own], "patch/state")[1]
    arrays |= store.obs.dump(store.next_row[following[told]], "patch/next_state")[1]
    arrays |= store.action.dump(values, "patch/action")[1]
    for i, extra in enumerate(store.extras.values()):
        arrays |= extra.dump(values, f"patch/extra/{i}")[1]
    return arrays


def apply_patch(store: Steps, rows: Indices, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Change these steps as `dump_patch` has found them changed, if it has; they count as changed by the last edit.

    Raises:
        ValueError: If an array is missing or does not fit.
    """
    if "patch/values" not in arrays:
        return
    if store.obs is None or store.action is None:
        raise ValueError("there are changes of steps, but no steps")
    own, following, values = (_chosen(rows, arrays, name) for name in ("states", "next_states", "values"))
    told = expect(arrays, "patch/told", (len(following),), np.bool_)
    store.reward[values] = expect(arrays, "patch/reward", (len(values),), np.float64)
    store.terminal[values] = expect(arrays, "patch/terminal", (len(values),), np.bool_)
    store.action.fill(arrays, "patch/action", values)
    for i, extra in enumerate(store.extras.values()):
        for row in values.tolist():
            extra.drop(row)
        extra.add(arrays, f"patch/extra/{i}", np.arange(len(values)), values)
    states = store.obs.add(arrays, "patch/state", np.arange(len(own)))
    next_states = iter(store.obs.add(arrays, "patch/next_state", np.arange(told.sum())).tolist())
    for row, at in zip(own.tolist(), states.tolist(), strict=True):
        _put_state(store, row, at)
    for row, is_told in zip(following.tolist(), told.tolist(), strict=True):
        _put_next_state(store, row, next(next_states) if is_told else None)
    for part, changed in enumerate((own, following, values)):
        _mark(store, changed, part)
    store.note_inner_ends(rows)


def _chosen(rows: Indices, arrays: Mapping[str, NDArray[Any]], name: str) -> Indices:
    at = expect(arrays, f"patch/{name}", (len(arrays[f"patch/{name}"]),), np.int64)
    if len(at) and not (at.min() >= 0 and at.max() < len(rows)):
        raise ValueError(f"the array 'patch/{name}' holds numbers of steps out of range")
    chosen: Indices = rows[at]
    return chosen
