"""The content of a store in parts: steps written once, and a table of what changes, which joins them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.edits import apply_patch, dump_patch
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import expect
from pfrl_like.columns.state import dump_part, link_steps, used_observations
from pfrl_like.columns.steps import ENDED, RUNNING, Indices, Running

Arrays = Mapping[str, NDArray[Any]]

_NONE = -1  # in the place of the number of an observation

_COLUMNS: dict[str, Any] = {"reward": np.float64, "terminal": np.bool_}
_COLUMNS |= dict.fromkeys(("obs_row", "next_row", "successor"), np.int64)


def dump_segment(columns: Columns, rows: Indices) -> dict[str, NDArray[Any]]:
    """What will never change about these steps, with their observations; links to other steps are left out."""
    return dump_part(columns, rows, used_observations(columns, rows, ()))[1]


def dump_table(
    columns: Columns, rows: Indices, bounds: Indices, since: Indices
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What `join` needs beside the segments: links between them, running episodes, steps in no segment, and a patch.

    Args:
        columns: The store.
        rows: All its steps, in their order.
        bounds: Where among them each segment begins, and where the last one ends.
        since: For each segment the number of edits that had been made when it was written.
    """
    loose = [run for run in columns.running.values() if columns.is_loose(run)]
    others = rows[bounds[-1] :]
    header, arrays = dump_part(columns, others, used_observations(columns, others, loose))
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
        [
            int(number[run.tail]),
            _pending(columns, run, pending),
            number[run.waiting].tolist() if run.waiting else [],
        ]
        for run, (_, pending, _) in zip(columns.running.values(), header["running"], strict=True)
    ]
    return header, arrays


def _pending(columns: Columns, run: Running, number: int) -> int:
    """The number of the observation that a running episode waits for: 0 for its tail's next one, _NONE for none."""
    if not columns.is_loose(run):
        return 0
    if run.pending:
        return number
    return _NONE if run.tail and columns.next_row[run.tail] != columns.obs_row[run.tail] else 0


def join(
    header: Mapping[str, Any], arrays: Arrays, segments: Iterable[tuple[Arrays, int]]
) -> tuple[Columns, dict[str, NDArray[Any]]]:
    """The store that was written in parts, its steps in rows 1, 2, ...

    Args:
        header: From `dump_table`.
        arrays: From `dump_table`.
        segments: What `dump_segment` gave for each segment, the oldest first, and how many of its steps, the last ones,
            are still to be held.

    Returns:
        The store, and the columns of its links, rewards and ends as `dump` gives them.

    Raises:
        ValueError: If something is missing or does not fit.
    """
    try:
        joint = _Joint(header, arrays)
        for segment, count in segments:
            joint.add(segment, count)
        loose = [pending for _, pending, _ in header["running"] if pending > 0]
        joint.add(arrays, len(arrays["reward"]), loose)
        return joint.columns, joint.finish()
    except (TypeError, AttributeError, LookupError, OverflowError, MemoryError) as error:
        raise ValueError(f"the header does not fit: {error!r}") from error


class _Joint:
    """A store that grows by a part at a time.

    Attributes:
        columns: The store.
        links: Pairs of steps of different parts, the second of which follows the first, by their numbers.
        shared: Whether the observation between them is one.
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
        self._next_row: dict[int, int] = {}  # of the steps that links lead from
        self._number = np.zeros(1, np.int64)  # rows of the last part's observations

    def add(self, part: Arrays, count: int, further: Sequence[int] = ()) -> None:
        """Take up the last `count` steps of a part, and some more of its observations."""
        length, before = len(part["reward"]), self._n_steps
        skipped = length - count
        if not 0 <= skipped <= length:
            raise ValueError(f"a segment has {length} steps, expected at least {count}")
        own = {name: expect(part, name, (length,), dtype)[skipped:] for name, dtype in _COLUMNS.items()}
        self._number = self._add_observations(part, own, further)
        own["obs_row"], own["next_row"] = self._number[own["obs_row"]], self._number[own["next_row"]]
        own["successor"] = np.where(own["successor"] > skipped, own["successor"] - skipped + before, ENDED)
        self._add_values(part, np.arange(skipped, length))
        leaving = self.links[self._within(0, count), 0]
        self._next_row |= zip(leaving.tolist(), own["next_row"][leaving - before - 1].tolist(), strict=True)
        self._n_steps += count
        self._parts.append(own)

    def _within(self, side: int, count: int) -> NDArray[np.bool_]:
        """Which links have this side among the next `count` steps."""
        step = self.links[:, side] - self._n_steps
        within: NDArray[np.bool_] = (step > 0) & (step <= count)
        return within

    def _add_observations(self, part: Arrays, own: Arrays, further: Sequence[int]) -> Indices:
        """Store those observations of a part that are not there yet; returns the row of each."""
        used = np.unique(np.concatenate([own["obs_row"], own["next_row"], np.array(further, np.int64)]))
        if len(used) and not 0 < used[0] <= used[-1] <= 2 * len(part["reward"]) + len(further):
            raise ValueError("a segment names observations that are not there")
        number = np.zeros(used[-1] + 1 if len(used) else 1, np.int64)
        links = self.links[self._within(1, len(own["reward"])) & self.shared]
        number[own["obs_row"][links[:, 1] - self._n_steps - 1]] = [
            self._next_row[step] for step in links[:, 0].tolist()
        ]
        new = used[number[used] == 0]
        if self.columns.obs is not None:
            number[new] = self.columns.obs.add(part, "obs", new - 1)
        return number

    def _add_values(self, part: Arrays, steps: Indices) -> None:
        """Store actions and further columns of these steps of a part."""
        if self.columns.action is None:
            if len(steps):
                raise ValueError("there are steps, but no observations")
            return
        rows = self.columns.action.add(part, "action", steps)
        for i, extra in enumerate(self.columns.extras.values()):
            if f"extra/{i}/index" in part:  # else it has come later
                extra.add(part, f"extra/{i}", steps, rows)

    def finish(self) -> dict[str, NDArray[Any]]:
        """Link the steps of all parts; returns their columns."""
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
