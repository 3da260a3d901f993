"""Saving columns in several files: segments of steps, which are written once, and patches with later edits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import as_array, describe, expect
from pfrl_like.columns.state import dump, header_errors, link_steps, used_observations
from pfrl_like.columns.steps import ENDED, OPTIONAL, RUNNING, Indices, Running, Steps
from pfrl_like.utils.checks import as_reward

#: Columns of `Steps.edited`: for the key "state", for the key "next_state", and for all other keys.
_STATE, _NEXT_STATE, _VALUES = range(3)
_OBSERVATIONS = {"state": _STATE, "next_state": _NEXT_STATE}


def edit(store: Steps, row: int, changes: Mapping[str, Any], num_steps: int) -> None:
    """Change values of a stored step, in every item that contains it.

    A changed observation is stored in a new row. The previous or the next step may use the old row, and keeps it.

    Args:
        store: The columns.
        row: The step.
        changes: New values, with the keys of `Columns.transitions`.
        num_steps: Number of steps per item. If a terminal flag changes, the ends of n-step returns are computed again.

    Raises:
        ValueError: If a key is not a column, or a value does not match its column. Nothing is changed.
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
            store.extras[name].drop(row)
            store.extras[name].put(row, value)
        _mark(store, row, _OBSERVATIONS.get(name, _VALUES))


def _checked(store: Steps, name: str, value: Any) -> Any:
    """Check a new value and return it in the form in which it is stored.

    Raises:
        ValueError: If the value does not match its column.
        TypeError: If the value is a reward that is not a number.
    """
    assert store.obs is not None and store.action is not None
    if name in _OBSERVATIONS:
        field = store.obs
        if value is None and name == "next_state":
            return None
        return store.check_or_widen(lambda: field.check(value, name))
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
        expected = f"one of the keys {[*dict.fromkeys(keys)]}; pass extra values to `append`, as keywords"
        raise ValueError(f"{name}: got {describe(value)} for a new key of a stored transition, expected {expected}")
    return value


def _stored(store: Steps, leaves: list[Any]) -> int:
    """Store an observation in a new row. Return the row. Later observations do not share this row."""
    assert store.obs is not None
    store.obs_rows.reserve(1)
    row = store.obs_rows.free.pop()
    store.obs.put(row, leaves)
    store.obs.mark_last(row)
    return row


def _put_state(store: Steps, row: int, at: int) -> None:
    store.link_back()
    before, previous = store.obs_row.item(row), store.predecessor.item(row)
    if store.next_row.item(row) == before:  # equal rows mean that the step has no next observation
        store.next_row[row] = at
    store.obs_row[row] = at
    if not previous or store.next_row.item(previous) != before:
        store.free_observation(before)


def _put_next_state(store: Steps, row: int, at: int | None) -> None:
    before, own, successor = store.next_row.item(row), store.obs_row.item(row), store.successor.item(row)
    if successor == RUNNING:
        is_shared = any(run.pending == before for run in store.running.values())
    else:
        is_shared = store.obs_row.item(successor) == before
    store.next_row[row] = own if at is None else at
    if before != own and not is_shared:
        store.free_observation(before)
    _update_lacks_next(store, row)


def _put_terminal(store: Steps, row: int, terminal: bool, num_steps: int) -> None:
    store.terminal[row] = terminal
    store.has_inner_ends |= terminal and store.successor.item(row) != ENDED
    _update_lacks_next(store, row)
    if num_steps > 1:
        store.link_back()
        first = [row]  # the first steps of all windows that contain this step
        while len(first) < num_steps and (previous := store.predecessor.item(first[-1])):
            first.append(previous)
        store.find_windows(np.array(first), num_steps)


def _update_lacks_next(store: Steps, row: int) -> None:
    store.lacks_next |= bool(store.next_row[row] == store.obs_row[row] and not store.terminal[row])


def _mark(store: Steps, rows: Any, part: int) -> None:
    if store.edited is None:
        store.edited = store.steps.array((3,), np.int64)
    store.edited[rows, part] = store.edits


# Patches: the later edits of steps that are in segments


def changed_since(store: Steps, rows: Indices, since: Any) -> NDArray[np.bool_]:
    """Return bools [n, 3]: True if the state, the next state or another value changed after the edit number `since`."""
    if store.edited is None:
        return np.zeros((len(rows), 3), np.bool_)
    return store.edited.take(rows, 0) > np.reshape(since, (-1, 1))


def dump_patch(store: Steps, rows: Indices, since: Any) -> dict[str, NDArray[Any]]:
    """Return the changes of each step since an edit number, for `apply_patch`. `since` has one number for each step.

    Returns:
        Arrays for a file; {} if nothing was changed.
    """
    changed = changed_since(store, rows, since)
    if not changed.any():
        return {}
    assert store.obs is not None and store.action is not None
    state_steps, next_steps, value_steps = (np.flatnonzero(part) for part in changed.T)
    own, following, values = rows[state_steps], rows[next_steps], rows[value_steps]
    has_next = store.next_row[following] != store.obs_row[following]
    arrays: dict[str, NDArray[Any]] = {
        "patch/states": state_steps, "patch/next_states": next_steps, "patch/told": has_next,
        "patch/values": value_steps, "patch/reward": store.reward[values], "patch/terminal": store.terminal[values],
    }  # fmt: skip
    arrays |= store.obs.dump(store.obs_row[own], "patch/state")[1]
    arrays |= store.obs.dump(store.next_row[following[has_next]], "patch/next_state")[1]
    arrays |= store.action.dump(values, "patch/action")[1]
    for i, extra in enumerate(store.extras.values()):
        arrays |= extra.dump(values, f"patch/extra/{i}")[1]
    return arrays


def apply_patch(store: Steps, rows: Indices, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Apply the changes from `dump_patch` to these steps. They are marked with the number of the last edit.

    Raises:
        ValueError: If an array is missing or invalid.
    """
    if "patch/values" not in arrays:
        return
    if store.obs is None or store.action is None:
        raise ValueError("there are changes of steps, but no steps")
    own, following, values = (_rows_at(rows, arrays, name) for name in ("states", "next_states", "values"))
    has_next = expect(arrays, "patch/told", (len(following),), np.bool_)
    store.reward[values] = expect(arrays, "patch/reward", (len(values),), np.float64)
    store.terminal[values] = expect(arrays, "patch/terminal", (len(values),), np.bool_)
    store.action.fill(arrays, "patch/action", values)
    for i, extra in enumerate(store.extras.values()):
        for row in values.tolist():
            extra.drop(row)
        extra.add(arrays, f"patch/extra/{i}", np.arange(len(values)), values)
    states = store.obs.add(arrays, "patch/state", np.arange(len(own)))
    next_states = iter(store.obs.add(arrays, "patch/next_state", np.arange(has_next.sum())).tolist())
    for row, at in zip(own.tolist(), states.tolist(), strict=True):
        _put_state(store, row, at)
    for row, exists in zip(following.tolist(), has_next.tolist(), strict=True):
        _put_next_state(store, row, next(next_states) if exists else None)
    for part, changed in enumerate((own, following, values)):
        _mark(store, changed, part)
    store.update_inner_ends(rows)


def _rows_at(rows: Indices, arrays: Mapping[str, NDArray[Any]], name: str) -> Indices:
    at = expect(arrays, f"patch/{name}", (len(arrays[f"patch/{name}"]),), np.int64)
    if len(at) and not (at.min() >= 0 and at.max() < len(rows)):
        raise ValueError(f"the array 'patch/{name}' contains step numbers out of range")
    selected: Indices = rows[at]
    return selected


Arrays = Mapping[str, NDArray[Any]]

_NONE = -1  # number of an observation that does not exist

_COLUMNS: dict[str, Any] = {"reward": np.float64, "terminal": np.bool_}
_COLUMNS |= dict.fromkeys(("obs_row", "next_row", "successor"), np.int64)


def dump_segment(columns: Columns, rows: Indices) -> dict[str, NDArray[Any]]:
    """Return the arrays for a segment file: these steps and their observations, without links to other steps."""
    return dump(columns, rows, used_observations(columns, rows, ()))[1]


def dump_table(
    columns: Columns, rows: Indices, bounds: Indices, since: Indices
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return everything that `join` needs except the segments: links, running episodes, other steps, and a patch.

    Args:
        columns: The columns.
        rows: All steps, in order.
        bounds: Positions in `rows` at which each segment begins, and at which the last segment ends.
        since: For each segment, the number of edits before it was written.
    """
    loose = [run for run in columns.running.values() if columns.is_loose(run)]
    others = rows[bounds[-1] :]
    header, arrays = dump(columns, others, used_observations(columns, others, loose))
    number = np.zeros(columns.steps.size, np.int64)
    number[rows] = np.arange(1, len(rows) + 1)
    follower = number[np.maximum(columns.successor[rows], ENDED)]
    part = np.searchsorted(bounds, np.arange(len(rows)), "right")
    at = np.flatnonzero((follower != ENDED) & (part[follower - 1] != part))
    to = follower[at]
    arrays["links"] = np.stack([at + 1, to], axis=1)
    arrays["shared"] = columns.next_row[rows[at]] == columns.obs_row[rows[to - 1]]
    arrays |= dump_patch(columns, rows[: bounds[-1]], np.repeat(since, np.diff(bounds)))
    header |= {"n_steps": len(rows), "edits": columns.edits}
    header["running"] = [
        [int(number[run.tail]), _pending(columns, run, pending), number[run.waiting].tolist() if run.waiting else []]
        for run, (_, pending, _) in zip(columns.running.values(), header["running"], strict=True)
    ]
    return header, arrays


def _pending(columns: Columns, run: Running, number: int) -> int:
    """Return the number of a running episode's pending observation.

    Return 0 for the next observation of the episode's newest step, and _NONE if there is no pending observation.
    """
    if not columns.is_loose(run):
        return 0
    if run.pending:
        return number
    return _NONE if run.tail and columns.next_row[run.tail] != columns.obs_row[run.tail] else 0


def join(
    header: Mapping[str, Any], arrays: Arrays, segments: Iterable[tuple[Arrays, int]]
) -> tuple[Columns, dict[str, NDArray[Any]]]:
    """Rebuild columns from their parts, with the steps in rows 1, 2, ...

    Args:
        header: The header that `dump_table` returned.
        arrays: The arrays that `dump_table` returned.
        segments: For each segment, oldest first, the result of `dump_segment` and the number of its last steps that are
            still stored.

    Returns:
        The columns, and a dict of their links, rewards and terminal flags, as in the result of `dump`.

    Raises:
        ValueError: If an array is missing or invalid.
    """
    with header_errors():
        builder = _ColumnsBuilder(header, arrays)
        for segment, count in segments:
            builder.add(segment, count)
        loose = [pending for _, pending, _ in header["running"] if pending > 0]
        builder.add(arrays, len(arrays["reward"]), loose)
        return builder.columns, builder.finish()


class _ColumnsBuilder:
    """Builds columns from parts: segments, and the remaining steps of the table.

    Attributes:
        columns: The columns.
        links: Pairs of step numbers, shape [n, 2]. The second step follows the first, but is in a different part.
        shared: True if both steps share the observation between them, shape [n].
    """

    def __init__(self, header: Mapping[str, Any], arrays: Arrays) -> None:
        self.header, self.arrays = header, arrays
        self.links = expect(arrays, "links", (len(arrays["links"]), 2), np.int64)
        self.shared = expect(arrays, "shared", (len(self.links),), np.bool_)
        self.columns = columns = Columns()
        if header["obs"] is not None:
            obs = Field.from_spec(columns.obs_rows, header["obs"])
            columns.set_fields(obs, Field.from_spec(columns.steps, header["action"]))
        for part in header["extras"]:
            extra = columns.add_extra(part["name"])
            if part["field"]:
                extra.set_field(Field.from_spec(extra.rows, part["field"]))
        self._n_steps = 0
        self._parts: list[dict[str, NDArray[Any]]] = []
        self._next_row: dict[int, int] = {}  # next_row of the first step of each link
        self._number = np.zeros(1, np.int64)  # row of each observation of the last part

    def add(self, part: Arrays, count: int, other_obs: Sequence[int] = ()) -> None:
        """Add the last `count` steps of a part, and its additional observations `other_obs`."""
        length, before = len(part["reward"]), self._n_steps
        skipped = length - count
        if not 0 <= skipped <= length:
            raise ValueError(f"a segment has {length} steps, expected at least {count}")
        own = {name: expect(part, name, (length,), dtype)[skipped:] for name, dtype in _COLUMNS.items()}
        self._number = self._add_observations(part, own, other_obs)
        own["obs_row"], own["next_row"] = self._number[own["obs_row"]], self._number[own["next_row"]]
        own["successor"] = np.where(own["successor"] > skipped, own["successor"] - skipped + before, ENDED)
        self._add_values(part, np.arange(skipped, length))
        leaving = self.links[self._within(0, count), 0]
        self._next_row |= zip(leaving.tolist(), own["next_row"][leaving - before - 1].tolist(), strict=True)
        self._n_steps += count
        self._parts.append(own)

    def _within(self, side: int, count: int) -> NDArray[np.bool_]:
        """For each link, True if the step on this side (0 or 1) is among the next `count` steps."""
        step = self.links[:, side] - self._n_steps
        return (step > 0) & (step <= count)

    def _add_observations(self, part: Arrays, own: Arrays, other_obs: Sequence[int]) -> Indices:
        """Store the new observations of a part. Return the row of each observation, indexed by its number."""
        used = np.unique(np.concatenate([own["obs_row"], own["next_row"], np.array(other_obs, np.int64)]))
        if len(used) and not 0 < used[0] <= used[-1] <= 2 * len(part["reward"]) + len(other_obs):
            raise ValueError("a segment refers to observations that do not exist")
        number = np.zeros(used[-1] + 1 if len(used) else 1, np.int64)
        links = self.links[self._within(1, len(own["reward"])) & self.shared]
        following = own["obs_row"][links[:, 1] - self._n_steps - 1]
        number[following] = [self._next_row[step] for step in links[:, 0].tolist()]
        new = used[number[used] == 0]
        if self.columns.obs is not None:
            number[new] = self.columns.obs.add(part, "obs", new - 1)
        return number

    def _add_values(self, part: Arrays, steps: Indices) -> None:
        """Store the actions and extra columns of these steps of a part."""
        if self.columns.action is None:
            if len(steps):
                raise ValueError("there are steps, but no observations")
            return
        rows = self.columns.action.add(part, "action", steps)
        for i, extra in enumerate(self.columns.extras.values()):
            if f"extra/{i}/index" in part:  # otherwise the extra column is newer than the part
                extra.add(part, f"extra/{i}", steps, rows)

    def finish(self) -> dict[str, NDArray[Any]]:
        """Link the steps of all parts. Return their columns as arrays."""
        arrays = {name: np.concatenate([part[name] for part in self._parts]) for name in _COLUMNS}
        arrays["successor"][self.links[:, 0] - 1] = self.links[:, 1]
        running = []
        for tail, pending, waiting in self.header["running"]:
            if tail:
                arrays["successor"][tail - 1] = RUNNING
            if pending > 0:
                pending = self._number.item(pending)
            elif pending == _NONE:
                pending = 0
            elif tail:
                own, pending = (arrays[name].item(tail - 1) for name in ("obs_row", "next_row"))
                pending = 0 if pending == own else pending
            running.append([tail, pending, waiting])
        header, steps = {**self.header, "running": running}, np.arange(1, self._n_steps + 1)
        link_steps(header, arrays, self.columns, steps, self.columns.obs_rows.size - 1)
        self.columns.edits = int(self.header.get("edits", 0))
        apply_patch(self.columns, steps, self.arrays)
        return {name: getattr(self.columns, name)[steps] for name in _COLUMNS}
