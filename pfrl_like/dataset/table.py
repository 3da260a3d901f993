"""Table of finished episodes; datasets, episodes and transitions are views of a table."""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Columns, Field, Indices, SharedRows, shared_field
from pfrl_like.columns.leaves import Rows, unique_in_order
from pfrl_like.columns.structure import map_structure

#: Bits for unknown parts of an episode: last observation, action in the last row, reward before the first action.
NO_OBS, NO_ACTION, NO_REWARD = 1, 2, 4
ALL_BITS = NO_OBS | NO_ACTION | NO_REWARD

#: Row of the reward of an action: the next row, which contains the observation after the action, or the same row.
NEXT_ROW, SAME_ROW = "next_row", "same_row"


def check_convention(convention: str) -> None:
    """Raise an error if a reward convention is unknown.

    Raises:
        ValueError: If it is unknown.
    """
    if convention not in (NEXT_ROW, SAME_ROW):
        raise ValueError(
            f"reward_convention: got {convention!r}, expected {NEXT_ROW!r} (rewards[t + 1] belongs to actions[t]) or "
            f"{SAME_ROW!r} (rewards[t] belongs to actions[t])"
        )


def part(column: NDArray[Any], rows: Indices) -> NDArray[Any]:
    """Return rows of a column, read-only: a view if `rows` selects all rows, else a copy."""
    if len(rows) == len(column):
        return column[:]
    taken: NDArray[Any] = column[rows - 1]
    taken.setflags(write=False)
    return taken


class Shown(NamedTuple):
    """The rows of a table that arrays of a reward convention contain.

    Attributes:
        rows: Rows of the table, shape [n].
        reward: Rewards, shape [n].
        terminal: True if the state of the row, or with "same_row" the state after its step, is terminal, shape [n].
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
    """Episodes of T steps, each with T + 1 rows: the steps, then a row for the last observation, which is not a step.

    Rows are the rows of `columns`; the first row is 1. A table is never changed; `dataclasses.replace` creates a new
    table.

    Attributes:
        obs: The observations.
        obs_row: For each row, the row of its observation in `obs`, shape [n]. If a terminal state is unknown, its row
            refers to the observation before it.
        action: Actions, shape [n, ...]; 0 in last rows without a known action.
        reward: Reward of the action in the same row, shape [n]; 0 in the last rows.
        terminated: True if the episode ended in a terminal state, False if it was truncated, shape [E].
        lengths: Number of steps of each episode, shape [E]; may be 0.
        lead: Reward in the row of the first observation, before any action, shape [E].
        made_up: Bits for the unknown parts of each episode, shape [E].
        log_prob: Log-probabilities (densities) of the actions under the behaviour policy, shape [n]; meaningless in
            last rows. None if they were not recorded.
        convention: Reward convention that datasets, episodes and transitions use. Training ignores it.
        declared: True if the user or a file named the convention, False if it was assumed, None if the source has only
            one possible convention.
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
    def told_steps(self) -> Indices:
        """Steps whose next observation is known, shape [up to sum(lengths)]."""
        return np.setdiff1d(self.steps, self.ends[(self.made_up & NO_OBS) > 0] - 1, assume_unique=True)

    @cached_property
    def position(self) -> Indices:
        """For each row, the number of earlier rows of its episode, shape [n + 1]; entry 0 is unused."""
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
        previous.setflags(write=False)  # it is a copy
        return previous

    @cached_property
    def current_reward(self) -> NDArray[np.float64]:
        """For each row, the reward in arrays of the table's convention, shape [n]."""
        return self.reward if self.convention == SAME_ROW else self.previous_reward

    @cached_property
    def next_reward(self) -> NDArray[np.float64]:
        """For each step, the reward in the next row in the table's convention, shape [n]; meaningless in last rows."""
        return np.append(self.reward[1:], 0.0) if self.convention == SAME_ROW else self.reward

    @cached_property
    def shown(self) -> "Shown":
        """The rows of the table in its own convention."""
        return self.in_convention(self.convention)

    def in_convention(self, convention: str) -> "Shown":
        """Return the rows that arrays of a convention contain, with their rewards and flags.

        `NEXT_ROW` contains all rows. `SAME_ROW` omits the last row of an episode that ended in a terminal state, so its
        last row is its last step.

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
        shown = Shown(rows, part(reward, rows), terminal[rows], timeout[rows], last[rows])
        shown.reward.setflags(write=False)
        return shown

    def declared_as(self, convention: str, declared: bool | None = True) -> "Table":
        """Return the same table in a convention that was named, or that was assumed if `declared` is False.

        Raises:
            ValueError: If the convention is unknown.
        """
        check_convention(convention)
        return dataclasses.replace(self, convention=convention, declared=declared)

    @cached_property
    def next_row(self) -> Indices:
        """For each step, the row of its next observation, shape [n]; meaningless in last rows."""
        return np.append(self.obs_row[1:], self.obs_row[-1])

    @cached_property
    def columns(self) -> Columns:
        """Columns of the steps, with the same rows as the table."""
        return self._columns(self.obs, self.action)

    def to_columns(self) -> Columns:
        """Return new columns, which the caller may append to; plain observations are shared until the first append."""
        table = self if isinstance(self.obs.rows, SharedRows) else joined([self])
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
        """Return observations of some rows, stacked; a view if the rows are contiguous in one array."""
        return self._observed(self.obs_row[rows - 1])

    def next_observations(self, rows: Indices) -> Any:
        """Return the observations after some steps, stacked."""
        return self._observed(self.next_row[rows - 1])

    def _observed(self, at: Indices) -> Any:
        plain = self.obs.plain
        if plain is not None and len(at) and (np.diff(at) == 1).all():
            return plain[at[0] : at[-1] + 1]
        return self.obs.stacked(at)

    def like(self, other: "Table") -> "Table":
        """Return the same table with the dtypes and the reward convention of another table.

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
        """Return a table of some of the episodes, in the order of `numbers`; the observations are shared."""
        rows = np.concatenate([np.arange(self.starts[number], self.ends[number] + 1) for number in numbers]) - 1
        of_rows = ["obs_row", "action", "reward"] + ["log_prob"] * (self.log_prob is not None)
        parts = {name: getattr(self, name)[rows] for name in of_rows}
        parts |= {name: getattr(self, name)[numbers] for name in ("terminated", "lengths", "lead", "made_up")}
        return dataclasses.replace(self, **parts)

    def with_made_up(self, made_up: Any) -> "Table":
        """Return the same table with other bits for unknown parts.

        Raises:
            ValueError: If `made_up` is not an array of valid bits with one number per episode.
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
        """Return the same table with only one part of nested observations."""
        return dataclasses.replace(self, obs=Field(self.obs.rows, 0, [self.obs.leaves[i]]))

    @property
    def is_array(self) -> bool:
        """True if an observation is one array of numbers, neither nested nor an object."""
        return self.obs.structure == 0 and self.obs.leaves[0].dtype != object

    @property
    def obs_shape(self) -> Any:
        """Shape of an observation, nested like the observation."""
        return map_structure(lambda i: self.obs.leaves[i].shape, self.obs.structure)


def joined(tables: Sequence[Table]) -> Table:
    """Join similar tables into one table; columns that only some tables have are dropped."""
    first = tables[0]
    kept = [unique_in_order(table.obs_row) for table in tables]
    if first.obs.plain is not None:
        obs = shared_field(np.concatenate([_values(table, own) for table, (own, _) in zip(tables, kept, strict=True)]))
        begin = 0
    else:  # shared frames are stored once
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
