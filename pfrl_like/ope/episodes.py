"""Recorded episodes in the form that estimators of returns take: one row per episode."""

import dataclasses
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pfrl_like.batch import map_nested
from pfrl_like.columns import Indices
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.table import Table
from pfrl_like.dataset.transition import observed

Array = NDArray[np.float64]
Column = NDArray[Any]
#: Rows that are computed at a time.
_ROWS = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Episodes of up to T steps under a behaviour policy, with importance weights of the evaluated policy.

    Make them with `from_columns`. After an episode's end its rewards and values are 0 and its weight stays constant.

    Attributes:
        reward: Rewards, [E, T].
        log_weight: Logarithm of pi_e(a_0|s_0) ... pi_e(a_t|s_t) / pi_b(a_0|s_0) ... pi_b(a_t|s_t), [E, T].
        lengths: Steps of the episodes, [E].
        truncated: Whether an episode was cut off, [E].
        q: A model's value of the actions taken, Q(s_t, a_t), [E, T]; None without a model.
        v: The model's value of the states under the evaluated policy, V(s_t), the state after the last step included,
            [E, T + 1]; None without a model.
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
        """Make episodes from columns of all their N steps, one episode after the other.

        Args:
            reward: Reward of each action, [N].
            target_log_prob: Log-probability (density) of each action under the evaluated policy, [N]; minus infinity
                for actions that it never takes.
            behavior_log_prob: Log-probability (density) of each action under the policy that acted, [N].
            lengths: Steps of each episode, [E].
            truncated: Whether each episode was cut off, [E]; None if none was.
            q: A model's Q(s, a) of each step, [N]; give both `q` and `v`, or neither.
            v: The model's V(s) under the evaluated policy, [N].
            last_v: The model's value of each episode's last state, [E]: the expected return after the end of a
                truncated episode. It is used for truncated episodes only; None for 0.

        Raises:
            ValueError: If the lengths of columns differ, or numbers are invalid; the message names the column.
            TypeError: If a column holds no numbers; the message names the column.
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
            """A column [N] arranged in one row per episode, [E, T], with 0 after the ends."""
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
        """Effective number of episodes of the evaluated policy: (sum w)**2 / sum w**2 (Kish 1965)."""
        weight = scaled_weights(self.log_weight[:, -1:])[0]
        return float(weight.sum() ** 2 / np.square(weight).sum()) if weight.any() else 0.0

    @property
    def lognormal_sample_size(self) -> float:
        """Effective sample size of lognormal weights with the spread of these weights: E exp(-s**2).

        s is the distance from the median of the logarithms of the weights to their 84 % quantile, which is the standard
        deviation of a normal distribution. If the largest weights have not occurred in the data, the
        `effective_sample_size` is too large; this one does not depend on them.
        """
        known = self.log_weight[:, -1]
        known = known[np.isfinite(known)]
        if not len(known):
            return 0.0
        middle, above = np.quantile(known, [0.5, NormalDist().cdf(1.0)])
        return float(len(known) * np.exp(-np.square(above - middle)))

    def model(self) -> tuple[Array, Array]:
        """The model's values `q` and `v`.

        Raises:
            ValueError: If there are none.
        """
        if self.q is None or self.v is None:
            raise ValueError("episodes hold no values of a model: give q and v, such as those of FQE")
        return self.q, self.v


def scaled_weights(log_weight: Array) -> tuple[Array, Array]:
    """Weights, [E, T], each column divided by its largest weight, and the logarithms of the largest weights, [T].

    A column without a weight above 0 stays 0.
    """
    largest = log_weight.max(axis=0)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    return np.exp(log_weight - shift), shift


def finite_column(name: str, values: Any, size: int, may_be_impossible: bool = False) -> Array:
    """A column of numbers, [size].

    Args:
        name: Name of the column in errors.
        values: The numbers.
        size: Number of rows that the column must have.
        may_be_impossible: Whether minus infinity is allowed.

    Raises:
        ValueError: If the column has another length, or a number is not finite; the message names the row.
        TypeError: If the values are no numbers.
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
    """Observations of steps; slices are gathered on access, since all observations may be larger than memory.

    Observations of float64 become float32, as in training.

    Args:
        table: Table that contains the observations.
        rows: Rows of the steps in the table, [n].
        n_frames: Number of images that are stacked.
        following: Whether to take the observations after the steps.
    """

    def __init__(self, table: Table, rows: Indices, n_frames: int, following: bool = False) -> None:
        self._table, self._rows, self._n_frames, self._following = table, rows, n_frames, following

    def __len__(self) -> int:
        return len(self._rows)

    def stacked_for(self, algo: Any) -> Self:
        """The same observations, stacked for an algorithm by its `n_frames`; unchanged if it has none."""
        return type(self)(self._table, self._rows, getattr(algo, "n_frames", self._n_frames), self._following)

    def __getitem__(self, part: slice) -> Any:
        return map_nested(single, observed(self._table, self._rows[part], self._n_frames, following=self._following))


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """The transitions of E episodes, one episode after the other; the reward of a row is that of its action.

    Attributes:
        obs: Observations, frames stacked, [n, ...].
        action: Actions, [n, A] or [n].
        reward: Rewards, [n].
        lengths: Transitions of each episode, [E].
        truncated: Whether each episode was cut off, [E].
        last_obs: Last observation of each episode, frames stacked, [E, ...].
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
        """The transitions of a selection, with `n_frames` images stacked; episodes without transitions are left out."""
        table, steps = selection.dataset.table, selection.rows
        lengths = np.array([len(episode) for episode in selection.episodes if len(episode)])
        last = steps[np.cumsum(lengths) - 1]
        return cls(
            Observations(table, steps, n_frames), table.action[steps - 1], table.reward[steps - 1], lengths,
            ~table.terminal[last], Observations(table, last, n_frames, following=True),
            None if table.log_prob is None else table.log_prob[steps - 1],
        )  # fmt: skip


def single(column: Column) -> Column:
    """A column with float32 in the place of float64."""
    return column.astype(np.float32) if column.dtype == np.float64 else column


def first_of(selection: Selection, n_frames: int) -> Any:
    """The first observation of a selection, with `n_frames` images stacked, for a dry run of a policy."""
    return Observations(selection.dataset.table, selection.rows, n_frames)[:1][0]


def in_parts(function: Callable[..., Column], *columns: Any) -> Column:
    """A function's values for all rows of columns, [n, ...], computed for some thousand rows at a time.

    Args:
        function: Function of slices of the columns that returns an array with as many rows.
        columns: Objects with a length and slices.
    """
    starts = range(0, max(1, len(columns[0])), _ROWS)  # also one call for no rows, for the shape of the result
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])
