"""Base class of `Columns`: step columns, the checks of new values, and the state of running episodes."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.field import Extra, Field
from pfrl_like.columns.leaves import DtypeError, Rows
from pfrl_like.utils.checks import warn_once

Indices = NDArray[np.int64]
Checked = TypeVar("Checked")

ENDED = 0  # successor of an episode's last step: row 0 has reward 0 and is its own successor
RUNNING = -1  # successor of a running episode's newest step

_RESERVED = ("state", "obs", "action", "reward", "next_state", "next_obs", "is_state_terminal", "weight")
#: Extra columns that may have no value in some steps: next actions may be unknown, and masks may be omitted.
OPTIONAL = {"next_action", "action_mask", "next_action_mask"}
#: For dtypes of a column, the Python type of the numbers that need no check.
_PYTHON_TYPES: dict[Any, type] = {np.dtype(np.int64): int, np.dtype(np.float64): float}


@dataclasses.dataclass(eq=False, slots=True)
class Running:
    """State of the running episode of one environment.

    Attributes:
        tail: Row of the episode's newest step; 0 if that step was released.
        pending: Row of the newest step's next observation; 0 if there is no next observation.
        waiting: Steps that cannot be sampled yet. Only the buffer that owns the columns uses this list.
    """

    tail: int = 0
    pending: int = 0
    waiting: list[int] = dataclasses.field(default_factory=list)


class Steps:
    """Columns of steps and of observations, with the checks of new values.

    Attributes:
        running: The running episode of each environment that has a running episode.
        reward, terminal, obs_row, next_row, successor: Step columns. `next_row` equals `obs_row` if the step has no
        next observation.
        lookahead: A step column, filled by `set_windows`: number of steps of the n-step item that begins with this
            step; 0 if the item ends in a terminal state and does not bootstrap.
        window_end: A step column, filled by `set_windows`: last step of the n-step item that begins with this step.
        window_steps: Number of steps of the last call of `find_windows`; 1 before the first call.
        predecessor: A step column, filled after `link_back` was called: row of the previous step of the episode; 0 for
            the first step, or if the previous step is no longer stored.
        releases: A step column, filled after `count_releases` was called: number of releases of each row since that
            call.
        edits: Number of changes of stored steps (`segments.edit`).
        edited: A step column with three entries, filled after a step was changed: the number of the last change of the
            state, of the next state, and of the other values; 0 if there was no change.
        has_inner_ends: True if a step before the last step of its episode may be terminal, because the user changed it.
        obs, action: Fields of nested values; None before the first step.
        extras: Extra columns, keyed by name.
        names: Names of the extra columns that every step must have; None before the first step.
        plain, plain_action: The arrays of observations and of actions if each value is a single array or number, else
        None.
    """

    def __init__(self) -> None:
        self.steps = Rows()
        self.obs_rows = self.new_rows("obs")
        self.reward: NDArray[np.float64] = self.steps.array((), np.float64)
        self.terminal: NDArray[np.bool_] = self.steps.array((), np.bool_)
        self.obs_row: Indices = self.steps.array((), np.int64)
        self.next_row: Indices = self.steps.array((), np.int64)
        self.successor: Indices = self.steps.array((), np.int64)
        self.lookahead = self.window_end = np.zeros(0, np.int64)
        self.window_steps = 1
        self.predecessor: Indices = np.zeros(0, np.int64)
        self.releases: Indices | None = None
        self.edits = 0
        self.edited: Indices | None = None
        self.has_inner_ends = False
        self.running: dict[Any, Running] = {}
        self.extras: dict[str, Extra] = {}
        self.names: set[str] | None = None
        self.spare_places: list[Indices] = []  # arrays filled with -1, each used by one caller at a time
        self.lacks_next = False  # True after a step that is not terminal was stored without a next observation
        self.set_fields(None, None)

    def new_rows(self, name: str) -> Rows:
        """Return rows for the values of a field."""
        return Rows()

    def add_extra(self, name: str) -> Extra:
        """Add an extra column."""
        extra = self.extras[name] = Extra(self.steps, name, self.new_rows(f"extra{len(self.extras)}"))
        return extra

    def set_fields(self, obs: Field | None, action: Field | None) -> None:
        """Set the fields of observations and actions."""
        self.obs, self.action = obs, action
        self.plain = obs.plain if obs else None
        self.plain_action = action.plain if action else None
        self._obs_shape = () if self.plain is None else self.plain.shape[1:]
        self._action_shape = () if self.plain_action is None else self.plain_action.shape[1:]
        self._action_dtype = None if self.plain_action is None else self.plain_action.dtype
        dtype = self._action_dtype if self._action_shape == () else None
        self._action_types = () if dtype is None else (dtype.type, _PYTHON_TYPES.get(dtype, dtype.type))

    def _checked(self, obs: Any, action: Any, next_obs: Any, extra: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Check observations and action. Return their leaves, or the single array if the values are single arrays."""
        self._check_names(extra)
        action_field = self.action
        obs_field = self.obs or Field.like(self.new_rows("obs"), obs, strict=True, frames=True)
        leaves, next_leaves = self.check_or_widen(
            lambda: (obs_field.check(obs, "obs"), None if next_obs is None else obs_field.check(next_obs, "next_obs"))
        )
        if action_field is None:
            action_field = Field.like(self.steps, action, strict=False)
        action_leaves = action_field.check(action, "action")
        if self.obs is None:
            self.obs_rows = obs_field.rows
            self.set_fields(obs_field, action_field)
            self.names = set(extra) - OPTIONAL
        return (
            leaves[0] if self.plain is not None else leaves,
            action_leaves[0] if self.plain_action is not None else action_leaves,
            next_leaves[0] if self.plain is not None and next_leaves else next_leaves,
        )

    def check_or_widen(self, check: Callable[[], Checked]) -> Checked:
        """Return the result of a check of observations.

        If the dtype of their column cannot represent them, the column gets a wider dtype, and the check is repeated.

        Raises:
            ValueError: If the check rejects the observations, or if the column is in a file, which keeps its dtype.
        """
        while True:
            try:
                return check()
            except DtypeError as error:
                leaf, before = error.leaf, error.leaf.dtype
                if not leaf.value_rows.can_widen:
                    raise
                leaf.widen(error.dtype)
                text = f"{error}; the replay buffer stores observations as {leaf.dtype} instead of {before} from now on"
                warn_once(("dtype of a column", before, leaf.dtype), text)
                if self.obs is not None:
                    self.set_fields(self.obs, self.action)
                    self.edits += 1  # files of earlier saves have the old dtype, so all steps are saved again
                    self.edited = self.steps.array((3,), np.int64) if self.edited is None else self.edited
                    self.edited[:] = self.edits

    def _check_names(self, extra: Mapping[str, Any]) -> None:
        if self.names is None:
            if bad := [name for name in extra if name in _RESERVED]:
                raise ValueError(f"extra keywords: got {bad}, expected names other than {list(_RESERVED)}")
        elif extra.keys() - OPTIONAL != self.names:
            raise ValueError(f"extra keywords: got {sorted(extra)}, expected {sorted(self.names)} as in the first step")

    def _checked_many_extras(self, extra: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        self._check_names(extra)
        new = [name for name in extra if name not in self.extras]
        for name in new:
            Extra(Rows(), name).check_many(extra[name])  # checked before the column is added
        for name in new:
            self.add_extra(name)
        return {name: self.extras[name].check_many(values) for name, values in extra.items()}

    def _put_extras(self, row: int, checked: Mapping[str, Any]) -> None:
        for name, value in checked.items():
            if name not in self.extras:
                self.add_extra(name)
            self.extras[name].put(row, value)
        if len(checked) < len(self.extras):
            for name in (OPTIONAL & self.extras.keys()) - checked.keys():
                self.extras[name].put(row, None)

    def _put_observations(self, run: Running, leaves: list[Any], next_leaves: list[Any] | None) -> tuple[int, int]:
        field, at = self.obs, run.pending
        assert field is not None
        self.obs_rows.reserve(2)
        if not at or not field.same(at, leaves):
            if at and self.is_loose(run):
                self.free_observation(at)
            elif at:
                field.mark_last(at)
            at = self.obs_rows.free.pop()
            field.put(at, leaves)
        if next_leaves is None:
            return at, at
        next_at = self.obs_rows.free.pop()
        field.put(next_at, next_leaves, previous_row=at)
        return at, next_at

    def _put_many_observations(
        self, runs: Sequence[Running], leaves: list[Any], next_leaves: list[Any]
    ) -> tuple[Indices, Indices]:
        assert self.obs is not None
        at = np.array([run.pending for run in runs], np.int64)
        new = np.flatnonzero((at == 0) | ~self.obs.same_many(at, leaves))
        for i in new.tolist():
            if runs[i].pending and self.is_loose(runs[i]):
                self.free_observation(runs[i].pending)
            elif runs[i].pending:
                self.obs.mark_last(runs[i].pending)
        at[new] = self.obs_rows.take(len(new))
        if len(new):
            own = [[leaf[i] for i in new] if isinstance(leaf, list) else leaf[new] for leaf in leaves]
            self.obs.put_many(at[new], own, np.zeros(len(new), np.int64))
        next_at = self.obs_rows.take(len(runs))
        self.obs.put_many(next_at, next_leaves, at)
        return at, next_at

    def _link(
        self, runs: Sequence[Running], rows: Indices, reward: Any, terminal: Any, at: Indices, next_at: Indices
    ) -> None:
        """Make these rows the newest steps of the running episodes, one row per episode."""
        self.reward[rows] = reward
        self.terminal[rows] = terminal
        self.obs_row[rows] = at
        self.next_row[rows] = next_at
        self.successor[rows] = RUNNING
        if len(self.predecessor):
            self.predecessor[rows] = [run.tail for run in runs]
        for run, row, pending in zip(runs, rows.tolist(), next_at.tolist(), strict=True):
            if run.tail:
                self.successor[run.tail] = row
            run.tail, run.pending = row, pending

    def set_windows(self, rows: int | Sequence[int] | Indices, end: Any, length: Any) -> None:
        """Set the last step and the length (number of steps) of the n-step items that begin in these rows."""
        if not len(self.window_end):
            self.window_end, self.lookahead = self.steps.array((), np.int64), self.steps.array((), np.int64)
        self.window_end[rows] = end
        ended = self._end_in_windows(rows, length) if self.has_inner_ends else self.terminal[end]
        self.lookahead[rows] = length * ~ended

    def _end_in_windows(self, rows: int | Sequence[int] | Indices, length: Any) -> Any:
        """Return an array that is True where one of the first `length` steps from a row is terminal."""
        step, ended = np.array(rows), np.zeros(np.shape(rows), np.bool_)
        for i in range(np.max(length, initial=0)):
            ended |= self.terminal[step] & (i < np.asarray(length))
            step = self.successor.take(np.maximum(step, ENDED))
        return ended

    def find_windows(self, rows: Indices, num_steps: int) -> None:
        """Call `set_windows` for the items of up to `num_steps` linked steps that begin in these rows."""
        self.window_steps = num_steps
        end = step = rows
        length = np.ones(len(rows), np.int64)
        for _ in range(1, num_steps):
            step = self.successor.take(np.maximum(step, ENDED))
            end = np.where(step > ENDED, step, end)
            length += step > ENDED
        self.set_windows(rows, end, length)

    def link_back(self) -> None:
        """Fill `predecessor`. From then on, every new step is added to it."""
        if len(self.predecessor):
            return
        self.predecessor = self.steps.array((), np.int64)
        held = np.ones(self.steps.size, np.bool_)
        held[[0, *self.steps.free]] = False
        rows = np.flatnonzero(held & (self.successor > ENDED))
        self.predecessor[self.successor[rows]] = rows

    def update_inner_ends(self, rows: Indices) -> None:
        """Compute `has_inner_ends` from these steps."""
        self.has_inner_ends = bool((self.terminal[rows] & (self.successor[rows] != ENDED)).any())

    def count_releases(self) -> Indices:
        """Return `releases`. The first call creates this column, and every later release increases an entry."""
        if self.releases is None:
            self.releases = self.steps.array((), np.int64)
        return self.releases

    def is_loose(self, run: Running) -> bool:
        """True if the pending observation of a running episode is not the next observation of its tail."""
        return not run.tail or self.next_row.item(run.tail) != run.pending

    def check_next_exists(self, rows: Indices) -> None:
        """Raise an error if a step is not terminal and has no next observation: bootstrapped targets need it.

        Raises:
            ValueError: If there is such a step.
        """
        missing = (self.next_row[rows] == self.obs_row[rows]) & ~self.terminal[rows]
        if missing.any():
            raise ValueError("next_state: got None for a step that is not terminal, expected an observation")

    def continues(self, env_id: Any, obs: Any) -> bool:
        """True if an observation equals the next observation of the newest step of this environment."""
        run = self.running.get(env_id)
        if run is None or self.obs is None or not run.pending:
            return False
        field = self.obs
        leaves = self.check_or_widen(lambda: field.check(obs, "obs"))
        return field.same(run.pending, leaves)

    def end(self, env_id: Any) -> None:
        """End the running episode of an environment."""
        run = self.running.pop(env_id, None)
        if run is None:
            return
        if run.pending and self.plain is None and self.obs is not None:
            self.obs.mark_last(run.pending)
        # same as is_loose, inlined for speed
        if run.pending and (not run.tail or self.next_row[run.tail] != run.pending):
            self.free_observation(run.pending)
        if run.tail:
            self.successor[run.tail] = ENDED

    def free_observation(self, row: int) -> None:
        """Free an observation that no step refers to."""
        assert self.obs is not None
        self.obs.drop(row)
        self.obs_rows.released.append(row)
