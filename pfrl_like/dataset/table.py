"""`Table`, the columns of finished episodes. Datasets, episodes and transitions are views of a table."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Columns, Field, Indices, SharedRows, shared_field
from pfrl_like.columns.leaves import Rows, unique_in_order
from pfrl_like.columns.structure import map_structure

#: Bits for unknown values of an episode: last observation, action in the last row, reward before the first action.
NO_OBS, NO_ACTION, NO_REWARD = 1, 2, 4
ALL_BITS = NO_OBS | NO_ACTION | NO_REWARD

#: Reward conventions: the reward of an action is in the next row, with the observation after the action, or in the same
#: row as the action.
NEXT_ROW, SAME_ROW = "next_row", "same_row"


def check_convention(convention: str) -> None:
    """Raise an error if a reward convention is unknown.

    Raises:
        ValueError: If the reward convention is unknown.
    """
    if convention not in (NEXT_ROW, SAME_ROW):
        expected = "'next_row' (rewards[t + 1] belongs to actions[t]) or 'same_row' (rewards[t] does)"
        raise ValueError(f"reward_convention: got {convention!r}, expected {expected}")


def part(column: NDArray[Any], rows: Indices) -> NDArray[Any]:
    """Return rows of a column, read-only. The result is a view if `rows` are all rows, otherwise a copy."""
    if len(rows) == len(column):
        return column[:]
    taken: NDArray[Any] = column[rows - 1]
    taken.setflags(write=False)
    return taken


class RowView(NamedTuple):
    """Rows of a table that arrays in a reward convention contain.

    Attributes:
        rows: Rows of the table, shape [n].
        reward: Rewards, shape [n].
        terminal: True if the state of the row is terminal, shape [n]. With "same_row", if the state after its step is.
        timeout: True for the last rows of truncated episodes, shape [n].
        last: True for the last rows of all episodes, shape [n].
    """

    rows: Indices
    reward: NDArray[np.float64]
    terminal: NDArray[np.bool_]
    timeout: NDArray[np.bool_]
    last: NDArray[np.bool_]


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns of episodes. An episode of T steps has T + 1 rows: the steps, and a row for the last observation.

    Rows are counted from 1, as in `columns`. A table is never changed: methods return new tables.

    Attributes:
        obs: The observations.
        obs_row: For each row, the row of its observation in `obs`, shape [n]. If a terminal state is unknown, its row
            refers to the observation before it.
        action: Actions, shape [n, ...]. 0 in last rows without a known action.
        reward: Reward of the action in the same row, shape [n]. 0 in last rows.
        terminated: True if the episode ended in a terminal state, False if it was truncated, shape [E].
        lengths: Number of steps of each episode, shape [E]. It may be 0.
        lead: Reward in the row of the first observation, before any action, shape [E].
        made_up: Bits for the unknown values of each episode, shape [E]. Placeholders replace unknown values.
        log_prob: Log-probabilities (densities) of the actions under the behaviour policy, shape [n]. Undefined in last
            rows. None if they were not recorded.
        convention: Reward convention of datasets, episodes and transitions. Training does not depend on it.
        declared: True if the user or a file specified the convention, False if neither did, None if the source of the
            data has only one possible convention.
    """

    obs: Field
    obs_row: Indices
    action: NDArray[Any]
    reward: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    lengths: Indices
    lead: NDArray[np.float64]
    made_up: NDArray[np.int64]
    log_prob: NDArray[np.float64] | None = None
    convention: str = NEXT_ROW
    declared: bool | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows, including the rows of last observations."""
        return len(self.obs_row)

    @cached_property
    def starts(self) -> Indices:
        """First row of each episode, shape [E]."""
        return 1 + np.cumsum(self.lengths + 1) - (self.lengths + 1)

    @cached_property
    def ends(self) -> Indices:
        """Row of each episode's last observation, shape [E]."""
        return self.starts + self.lengths

    @cached_property
    def steps(self) -> Indices:
        """Rows that are steps, shape [sum(lengths)]."""
        return np.delete(np.arange(1, self.n_rows + 1), self.ends - 1)

    @cached_property
    def steps_with_next_obs(self) -> Indices:
        """Rows of the steps whose next observation is known, at most sum(lengths)."""
        return np.setdiff1d(self.steps, self.ends[(self.made_up & NO_OBS) > 0] - 1, assume_unique=True)

    @cached_property
    def position(self) -> Indices:
        """For each row, the number of earlier rows of its episode, shape [n + 1]. Entry 0 is unused."""
        return np.concatenate([[0], np.arange(1, self.n_rows + 1) - np.repeat(self.starts, self.lengths + 1)])

    @cached_property
    def episode(self) -> Indices:
        """For each row, the number of its episode, shape [n + 1]."""
        return np.concatenate([[0], np.repeat(np.arange(len(self.lengths)), self.lengths + 1)])

    @cached_property
    def terminal(self) -> NDArray[np.bool_]:
        """For each row, True if its step ended in a terminal state, shape [n + 1]."""
        terminal = np.zeros(self.n_rows + 1, np.bool_)
        terminal[self.ends[self.terminated & (self.lengths > 0)] - 1] = True
        return terminal

    @cached_property
    def previous_reward(self) -> NDArray[np.float64]:
        """For each row, the reward of the action in the row before, shape [n]."""
        previous = np.concatenate([[0.0], self.reward[:-1]])
        previous[self.starts - 1] = self.lead
        previous.setflags(write=False)  # a change would have no effect
        return previous

    @cached_property
    def current_reward(self) -> NDArray[np.float64]:
        """For each row, the reward that arrays in the table's convention contain in this row, shape [n]."""
        return self.reward if self.convention == SAME_ROW else self.previous_reward

    @cached_property
    def next_reward(self) -> NDArray[np.float64]:
        """For each row, the reward that arrays in the table's convention contain in the next row, shape [n]."""
        return np.append(self.reward[1:], 0.0) if self.convention == SAME_ROW else self.reward

    @cached_property
    def view(self) -> "RowView":
        """The rows that arrays in the table's convention contain."""
        return self.in_convention(self.convention)

    def in_convention(self, convention: str) -> "RowView":
        """Return the rows that arrays in a reward convention contain, with their rewards and flags.

        With `NEXT_ROW`, these are all rows. With `SAME_ROW`, the last row of an episode that ended in a terminal state
        is omitted, so that the last step is the last row.

        Raises:
            ValueError: If the convention is unknown.
        """
        check_convention(convention)
        last = np.zeros(self.n_rows + 1, np.bool_)
        last[self.ends] = True
        terminal = np.zeros(self.n_rows + 1, np.bool_)
        terminal[self.ends[self.terminated]] = True
        rows, reward = np.arange(1, self.n_rows + 1), self.previous_reward
        if convention == SAME_ROW:
            rows = np.flatnonzero(~terminal)[1:]
            reward, terminal, last = self.reward, self.terminal, last | self.terminal
        timeout = last & ~terminal
        view = RowView(rows, part(reward, rows), terminal[rows], timeout[rows], last[rows])
        view.reward.setflags(write=False)
        return view

    def declared_as(self, convention: str, declared: bool | None = True) -> "Table":
        """Return the same table with another reward convention, and with another value of `declared`.

        Raises:
            ValueError: If the convention is unknown.
        """
        check_convention(convention)
        return dataclasses.replace(self, convention=convention, declared=declared)

    @cached_property
    def next_row(self) -> Indices:
        """For each step, the row of its next observation in `obs`, shape [n]. Undefined in last rows."""
        return np.append(self.obs_row[1:], self.obs_row[-1])

    @cached_property
    def columns(self) -> Columns:
        """Columns of the steps, with the same rows as the table."""
        return self._columns(self.obs, self.action)

    def to_columns(self) -> Columns:
        """Return new columns. The caller may append to them. Array observations are copied at the first append."""
        table = self if isinstance(self.obs.rows, SharedRows) else concatenate_tables([self])
        obs = shared_field(self.obs.leaves[0].data) if table is self else table.obs
        return table._columns(obs, self.action.astype(np.float32) if self.action.dtype == np.float64 else self.action)

    def _columns(self, obs: Field, action: NDArray[Any]) -> Columns:
        columns = Columns()
        rows = columns.steps.take(self.n_rows)
        field = Field.like(columns.steps, action[0], strict=False)
        field.leaves[0].data[rows] = action
        columns.obs_rows = obs.rows
        columns.set_fields(obs, field)
        if isinstance(obs.rows, SharedRows):
            obs.rows.set_store(columns)
        columns.names = set()
        columns.reward[rows] = self.reward
        columns.terminal[1:] = False
        columns.terminal[: self.n_rows + 1] = self.terminal
        columns.obs_row[rows] = self.obs_row
        columns.next_row[rows] = self.next_row
        columns.successor[rows] = rows + 1
        columns.successor[self.ends] = 0
        columns.successor[(self.ends - 1)[self.lengths > 0]] = 0
        return columns

    def observations(self, rows: Indices) -> Any:
        """Return the stacked observations of some rows, as a view if the rows are contiguous in one array."""
        return self._observed(self.obs_row[rows - 1])

    def next_observations(self, rows: Indices) -> Any:
        """Return the stacked observations after some steps."""
        return self._observed(self.next_row[rows - 1])

    def _observed(self, at: Indices) -> Any:
        plain = self.obs.plain
        if plain is not None and len(at) and (np.diff(at) == 1).all():
            return plain[at[0] : at[-1] + 1]
        return self.obs.stacked(at)

    def like(self, other: "Table") -> "Table":
        """Return this table with the dtypes and the reward convention of another table.

        Raises:
            ValueError: If observations or actions have a different structure, shape or kind of dtype, or if only one
                table has log-probabilities.
        """
        if (self.log_prob is None) != (other.log_prob is None):
            have = ("none", "some") if self.log_prob is None else ("some", "none")
            raise ValueError(f"log_probs: got {have[0]}, expected {have[1]} as in the dataset")
        table = self
        ours, theirs = self.obs.plain, other.obs.plain
        if ours is not None and theirs is not None and ours.shape[1:] == theirs.shape[1:]:
            if not np.can_cast(ours.dtype, theirs.dtype, "same_kind"):
                raise ValueError(f"observations: got {ours.dtype}, expected {theirs.dtype} as in the dataset")
            table = dataclasses.replace(table, obs=shared_field(ours.astype(theirs.dtype, copy=False)))
        action = self.action.astype(other.action.dtype, copy=False)
        actions = action.shape[1:], other.action.shape[1:]
        for name, (got, expected) in {"observations": (table.obs_shape, other.obs_shape), "actions": actions}.items():
            if got != expected:
                raise ValueError(f"{name}: got shape {got}, expected {expected} as in the dataset")
        if table.obs.spec() != other.obs.spec():
            raise ValueError(f"observations: got {table.obs.spec()}, expected {other.obs.spec()} as in the dataset")
        return dataclasses.replace(table, action=action, convention=other.convention)

    def of_episodes(self, numbers: Indices) -> "Table":
        """Return a table of some episodes, in the order of `numbers`. Both tables share the observations."""
        rows = np.concatenate([np.arange(self.starts[number], self.ends[number] + 1) for number in numbers]) - 1
        of_rows = ["obs_row", "action", "reward"] + ["log_prob"] * (self.log_prob is not None)
        parts = {name: getattr(self, name)[rows] for name in of_rows}
        parts |= {name: getattr(self, name)[numbers] for name in ("terminated", "lengths", "lead", "made_up")}
        return dataclasses.replace(self, **parts)

    def with_made_up(self, made_up: Any) -> "Table":
        """Return the same table with other bits for unknown values.

        Raises:
            ValueError: If `made_up` does not contain an integer from 0 to `ALL_BITS` for each episode.
        """
        array = np.asarray(made_up)
        if array.shape != self.lengths.shape or array.dtype.kind not in "iu" or (array & ~ALL_BITS).any():
            raise ValueError(f"made_up: expected {len(self.lengths)} integers from 0 to {ALL_BITS}")
        return dataclasses.replace(self, made_up=array.astype(np.int64))

    def with_rewards_clipped(self, low: float | None, high: float | None) -> "Table":
        """Return the same table with clipped rewards."""
        if low is None and high is None:
            return self
        reward, lead = np.clip(self.reward, low, high), np.clip(self.lead, low, high)
        reward[self.ends - 1] = 0.0
        lead[(self.made_up & NO_REWARD) > 0] = 0.0
        return dataclasses.replace(self, reward=reward, lead=lead)

    def of_leaf(self, i: int) -> "Table":
        """Return the same table with only leaf i of nested observations."""
        return dataclasses.replace(self, obs=Field(self.obs.rows, 0, [self.obs.leaves[i]]))

    @property
    def is_array(self) -> bool:
        """True if observations are arrays of numbers, neither nested nor objects."""
        return self.obs.structure == 0 and self.obs.leaves[0].dtype != object

    @property
    def obs_shape(self) -> Any:
        """Shape of an observation, nested like the observation."""
        return map_structure(lambda i: self.obs.leaves[i].shape, self.obs.structure)


def concatenate_tables(tables: Sequence[Table]) -> Table:
    """Concatenate tables whose columns have the same shapes and dtypes. Drop columns that only some tables have."""
    first = tables[0]
    kept = [unique_in_order(table.obs_row) for table in tables]
    if first.obs.plain is not None:
        obs = shared_field(np.concatenate([_values(table, own) for table, (own, _) in zip(tables, kept, strict=True)]))
        begin = 0
    else:  # store frames that several observations share only once
        obs, begin = Field.from_spec(Rows(), first.obs.spec()), 1
        for table, (own, _) in zip(tables, kept, strict=True):
            obs.fill(table.obs.dump(own, "obs")[1], "obs", obs.rows.take(len(own)))
    names = ["action", "reward", "terminated", "lengths", "lead", "made_up"]
    names += ["log_prob"] * all(table.log_prob is not None for table in tables)
    whole = {name: np.concatenate([getattr(table, name) for table in tables]) for name in names}
    begins = begin + np.cumsum([0, *(len(own) for own, _ in kept[:-1])])
    obs_row = np.concatenate([place + start for (_, place), start in zip(kept, begins, strict=True)])
    declared = False if any(table.declared is False for table in tables) else first.declared
    return Table(obs, obs_row, **whole, convention=first.convention, declared=declared)


def _values(table: Table, rows: Indices) -> NDArray[Any]:
    plain = table.obs.leaves[0].data
    return plain if np.array_equal(rows, np.arange(len(plain))) else plain.take(rows, 0)
