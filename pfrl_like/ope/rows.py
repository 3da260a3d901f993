"""Recorded transitions side by side, of whose observations only a part is in memory at a time."""

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.table import Table
from pfrl_like.dataset.transition import observed
from pfrl_like.learning.compatibility.recorded_data import OneObservation

Array = NDArray[Any]
#: Rows of a part.
_ROWS = 4096


class Observations:
    """Observations of steps, gathered where a slice of them is asked for: all of them may be larger than memory.

    Args:
        table: Where they lie.
        rows: The rows of the steps, [n].
        n_frames: How many images are stacked.
        following: Whether they are those after the steps.
    """

    def __init__(self, table: Table, rows: Indices, n_frames: int, following: bool = False) -> None:
        self._table, self._rows, self._n_frames, self._following = table, rows, n_frames, following

    def __len__(self) -> int:
        return len(self._rows)

    def stacked_for(self, algo: Any) -> Self:
        """The same as an algorithm takes them: with its `n_frames`, or as they are if it has none."""
        return type(self)(self._table, self._rows, getattr(algo, "n_frames", self._n_frames), self._following)

    def __getitem__(self, part: slice) -> Any:
        return observed(self._table, self._rows[part], self._n_frames, following=self._following)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The transitions of E episodes, one episode after the other; rewards pay the actions of their rows.

    Attributes:
        obs: Observations, frames stacked, [n, ...].
        action: Actions, [n, A] or [n].
        reward: Rewards, [n].
        lengths: Transitions of each episode, [E].
        truncated: Whether each was cut off, [E].
        last_obs: Their last observations, [E, ...].
        log_prob: Recorded log-probabilities of the actions, [n]; None if not all episodes have them.
    """

    obs: Observations
    action: Array
    reward: Array
    lengths: Array
    truncated: Array
    last_obs: Observations
    log_prob: Array | None

    @classmethod
    def of(cls, selection: Selection, n_frames: int) -> Self:
        """Those of a selection, with so many frames stacked; episodes without a transition are left out."""
        table, steps = selection.dataset.table, selection.rows
        lengths = np.array([len(episode) for episode in selection.episodes if len(episode)])
        last = steps[np.cumsum(lengths) - 1]
        return cls(
            Observations(table, steps, n_frames), table.action[steps - 1], table.reward[steps - 1], lengths,
            ~table.terminal[last], Observations(table, last, n_frames, following=True),
            None if table.log_prob is None else table.log_prob[steps - 1],
        )  # fmt: skip


def first_of(selection: Selection, n_frames: int) -> OneObservation:
    """The first observation of a selection, with so many frames stacked, by which policies are tried."""
    return OneObservation(observed(selection.dataset.table, selection.rows[:1], n_frames)[0])


def in_parts(function: Callable[..., Array], *columns: Any) -> Array:
    """A function's values for all rows of columns, [n, ...], asked for some thousand rows at a time.

    Args:
        function: From slices of the columns to an array of as many rows.
        columns: What has a length and gives slices.
    """
    starts = range(0, max(1, len(columns[0])), _ROWS)  # the values of none have a shape, too
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])
