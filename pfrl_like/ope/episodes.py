"""Recorded episodes as estimators see them, a row for each."""

import dataclasses
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.columns import Indices
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.table import Table
from pfrl_like.dataset.transition import observed

Array = NDArray[np.float64]
Column = NDArray[Any]
#: Rows of a part.
_ROWS = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Episodes of up to T steps under a behaviour policy, and what the evaluated policy makes of them.

    Make them with `from_columns`. After an episode's end its rewards and values are 0 and its weight stays what it is.

    Attributes:
        reward: Rewards, [E, T].
        log_weight: Logarithm of pi_e(a_0|s_0) ... pi_e(a_t|s_t) / pi_b(a_0|s_0) ... pi_b(a_t|s_t), [E, T].
        lengths: Steps of the episodes, [E].
        truncated: Whether an episode was cut off, [E].
        q: A model's value of the actions taken, Q(s_t, a_t), [E, T]; None without a model.
        v: Its value of the states under the evaluated policy, V(s_t), and of those after last steps, [E, T + 1].
    """

    reward: Array
    log_weight: Array
    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    q: Array | None = None
    v: Array | None = None

    @classmethod
    def from_columns(
        cls,
        reward: Any,
        target_log_prob: Any,
        behavior_log_prob: Any,
        lengths: Any,
        truncated: Any = None,
        *,
        q: Any = None,
        v: Any = None,
        last_v: Any = None,
    ) -> Self:
        """Episodes from columns of all their N steps, one episode after the other.

        Args:
            reward: The reward for each action, [N].
            target_log_prob: Log-probability (density) of each action under the evaluated policy, [N]; minus infinity
                where it never takes it.
            behavior_log_prob: The same under the policy that acted, [N].
            lengths: Steps of each episode, [E].
            truncated: Whether each episode was cut off, [E]; None for none.
            q: A model's Q(s, a) of each step, [N]; with `v`, or neither.
            v: The model's V(s) under the evaluated policy, [N].
            last_v: The model's value of each episode's last state, [E]: what truncated episodes would have brought
                after their end. It counts for these alone; None for 0.

        Raises:
            ValueError: If lengths differ, or on numbers that cannot be such; the text names the column.
            TypeError: If a column holds no numbers; likewise.
        """
        steps = np.asarray(lengths, np.int64)
        if steps.ndim != 1 or not len(steps) or (steps < 1).any():
            raise ValueError("lengths: expected the steps of at least one episode, each at least 1")
        size, count = int(steps.sum()), len(steps)
        if (q is None) != (v is None) or (last_v is not None and v is None):
            raise ValueError("q, v and last_v: expected q and v together, and last_v with them")
        cut = np.zeros(count, np.bool_) if truncated is None else np.asarray(truncated).astype(np.bool_)
        if cut.shape != (count,):
            raise ValueError(f"truncated: got shape {cut.shape}, expected ({count},)")
        target = finite_column("target_log_prob", target_log_prob, size, may_be_impossible=True)
        ratio = target - finite_column("behavior_log_prob", behavior_log_prob, size)
        there = np.arange(steps.max()) < steps[:, None]

        def spread(column: Array) -> Array:
            """A column [N] in rows of episodes, [E, T], 0 after their ends."""
            rows = np.zeros(there.shape)
            rows[there] = column
            return rows

        with_model: dict[str, Array] = {}
        if q is not None:
            values = np.zeros((count, there.shape[1] + 1))
            values[:, :-1] = spread(finite_column("v", v, size))
            after = np.zeros(count) if last_v is None else finite_column("last_v", last_v, count)
            values[np.arange(count), steps] = np.where(cut, after, 0.0)
            with_model = {"q": spread(finite_column("q", q, size)), "v": values}
        log_weight = np.cumsum(spread(ratio), axis=1)
        return cls(spread(finite_column("reward", reward, size)), log_weight, steps, cut, **with_model)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def effective_sample_size(self) -> float:
        """How many episodes of the evaluated policy's own these are worth: (sum w)**2 / sum w**2 (Kish 1965)."""
        weight = scaled_weights(self.log_weight[:, -1:])[0]
        return float(weight.sum() ** 2 / np.square(weight).sum()) if weight.any() else 0.0

    @property
    def lognormal_sample_size(self) -> float:
        """The same for lognormal weights whose logarithms vary, above their middle, as these do: E exp(-s**2).

        Until the largest weights have come, the effective sample size is too large, and the larger the more of them are
        missing. This one does not depend on them: s is the distance from the median to the 84 % quantile, which is the
        standard deviation of what is normal.
        """
        known = self.log_weight[:, -1]
        known = known[np.isfinite(known)]
        if not len(known):
            return 0.0
        middle, above = np.quantile(known, [0.5, NormalDist().cdf(1.0)])
        return float(len(known) * np.exp(-np.square(above - middle)))

    def model(self) -> tuple[Array, Array]:
        """The model's `q` and `v`.

        Raises:
            ValueError: If there is none.
        """
        if self.q is None or self.v is None:
            raise ValueError("episodes hold no values of a model: give q and v, such as those of FQE")
        return self.q, self.v


def scaled_weights(log_weight: Array) -> tuple[Array, Array]:
    """Weights [E, T], in each column divided by its largest one, and the logarithms of these, [T].

    A column that holds no weight above 0 stays so.
    """
    largest = log_weight.max(axis=0)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    return np.exp(log_weight - shift), shift


def finite_column(name: str, values: Any, size: int, may_be_impossible: bool = False) -> Array:
    """A column of numbers, [size].

    Args:
        name: What errors call it.
        values: The numbers.
        size: How many there have to be.
        may_be_impossible: Whether minus infinity is allowed.

    Raises:
        ValueError: If there are not as many, or one is not finite; the text names the row.
        TypeError: If they are no numbers.
    """
    try:
        column = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected numbers, one for each row, but {error}") from error
    if column.shape != (size,):
        raise ValueError(f"{name}: got shape {column.shape}, expected ({size},), as the lengths say")
    bad = ~np.isfinite(column) & ~(may_be_impossible & (column == -np.inf))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}: got {column[row]} in row {row}, expected a finite number")
    return column


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
    action: Column
    reward: Column
    lengths: Column
    truncated: Column
    last_obs: Observations
    log_prob: Column | None

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


def first_of(selection: Selection, n_frames: int) -> Any:
    """The first observation of a selection, with so many frames stacked, by which policies are tried."""
    return observed(selection.dataset.table, selection.rows[:1], n_frames)[0]


def in_parts(function: Callable[..., Column], *columns: Any) -> Column:
    """A function's values for all rows of columns, [n, ...], asked for some thousand rows at a time.

    Args:
        function: From slices of the columns to an array of as many rows.
        columns: What has a length and gives slices.
    """
    starts = range(0, max(1, len(columns[0])), _ROWS)  # the values of none have a shape, too
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])
