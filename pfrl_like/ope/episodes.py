"""Recorded episodes as arrays with one row per episode, the input of the estimators of returns."""

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
from pfrl_like.dataset.transition import observations_of
from pfrl_like.preprocessing.features import rows_of_stack

Array = NDArray[np.float64]
Column = NDArray[Any]
#: Number of rows in a chunk.
_ROWS = 4096


@dataclasses.dataclass(frozen=True, eq=False)
class LoggedEpisodes:
    """Episodes of up to T steps under a behaviour policy, with importance weights of the evaluated policy.

    `from_columns` creates the object. After the end of an episode, rewards and values are 0 and weights are constant.

    Attributes:
        reward: Rewards, [E, T].
        log_weight: Logarithm of pi_e(a_0|s_0) ... pi_e(a_t|s_t) / pi_b(a_0|s_0) ... pi_b(a_t|s_t), [E, T].
        lengths: Number of steps of each episode, [E].
        truncated: True for truncated episodes, [E].
        q: The model's action values Q(s_t, a_t), [E, T]. None without a model.
        v: The model's state values V(s_t) under the evaluated policy, including the state after the last step, [E, T +
            1]. None without a model.
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
        """Create episodes from columns of their N steps, one episode after the other.

        Args:
            reward: Reward of each action, [N].
            target_log_prob: Log-probability (or log-density) of each action under the evaluated policy, [N]. Actions
                that the policy never selects have minus infinity.
            behavior_log_prob: Log-probability (or log-density) of each action under the behaviour policy, [N].
            lengths: Number of steps of each episode, [E].
            truncated: True for truncated episodes, [E]. If None, no episode is truncated.
            q: The model's action value Q(s, a) of each step, [N]. Pass both `q` and `v`, or neither.
            v: The model's state value V(s) under the evaluated policy, [N].
            last_v: The model's value of each episode's last state, [E]. For truncated episodes, this value is the
                expected return after the truncation. For other episodes, the value is ignored. If None, 0.

        Raises:
            ValueError: If the lengths of columns differ, or a column contains an invalid number.
            TypeError: If a column does not contain numbers.
        """
        steps = np.asarray(lengths, np.int64)
        if steps.ndim != 1 or not len(steps) or (steps < 1).any():
            raise ValueError("lengths: expected the number of steps of at least one episode, each at least 1")
        size, count = int(steps.sum()), len(steps)
        if (q is None) != (v is None) or (last_v is not None and v is None):
            raise ValueError("q, v and last_v: expected q and v together, and last_v with them")
        is_truncated = np.zeros(count, np.bool_) if truncated is None else np.asarray(truncated).astype(np.bool_)
        if is_truncated.shape != (count,):
            raise ValueError(f"truncated: got shape {is_truncated.shape}, expected ({count},)")
        target = finite_column("target_log_prob", target_log_prob, size, may_be_impossible=True)
        ratio = target - finite_column("behavior_log_prob", behavior_log_prob, size)
        is_step = np.arange(steps.max()) < steps[:, None]

        def padded(column: Array) -> Array:
            """Return a column [N] as an array with one row per episode, [E, T], and 0 after the end of each episode."""
            rows = np.zeros(is_step.shape)
            rows[is_step] = column
            return rows

        with_model: dict[str, Array] = {}
        if q is not None:
            values = np.zeros((count, is_step.shape[1] + 1))
            values[:, :-1] = padded(finite_column("v", v, size))
            after = np.zeros(count) if last_v is None else finite_column("last_v", last_v, count)
            values[np.arange(count), steps] = np.where(is_truncated, after, 0.0)
            with_model = {"q": padded(finite_column("q", q, size)), "v": values}
        log_weight = np.cumsum(padded(ratio), axis=1)
        return cls(padded(finite_column("reward", reward, size)), log_weight, steps, is_truncated, **with_model)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def effective_sample_size(self) -> float:
        """Effective number of episodes of the evaluated policy: (sum w)**2 / sum w**2 (Kish 1965)."""
        weight = scaled_weights(self.log_weight[:, -1:])[0]
        return float(weight.sum() ** 2 / np.square(weight).sum()) if weight.any() else 0.0

    @property
    def lognormal_sample_size(self) -> float:
        """Effective sample size under the assumption that weights are lognormal: E exp(-s**2) for E episodes.

        s is the standard deviation of the log-weights, estimated by the difference between their 84 % quantile and
        their median. If the data happen to contain no large weight, `effective_sample_size` is too large.
        `lognormal_sample_size` does not depend on the largest weights.
        """
        known = self.log_weight[:, -1]
        known = known[np.isfinite(known)]
        if not len(known):
            return 0.0
        middle, above = np.quantile(known, [0.5, NormalDist().cdf(1.0)])
        return float(len(known) * np.exp(-np.square(above - middle)))

    def model(self) -> tuple[Array, Array]:
        """Return the model's values `q` and `v`.

        Raises:
            ValueError: If the episodes have no values of a model.
        """
        if self.q is None or self.v is None:
            raise ValueError("episodes have no values of a model: pass q and v, for example from an FQE")
        return self.q, self.v


def scaled_weights(log_weight: Array) -> tuple[Array, Array]:
    """Divide each column of the weights [E, T] by its maximum. Return the result and the logarithms of the maxima, [T].

    If all weights of a column are 0, the column stays 0.
    """
    largest = log_weight.max(axis=0)
    shift = np.where(np.isfinite(largest), largest, 0.0)
    return np.exp(log_weight - shift), shift


def finite_column(name: str, values: Any, size: int, may_be_impossible: bool = False) -> Array:
    """Return a column as finite float64 numbers, [size].

    Args:
        name: Name of the column in error messages.
        values: The numbers.
        size: Required number of rows.
        may_be_impossible: True if minus infinity is allowed.

    Raises:
        ValueError: If the column has the wrong length, or a number is not finite. The message contains the row.
        TypeError: If the values are not numbers.
    """
    try:
        column = np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values, np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name}: expected numbers, one for each row, but {error}") from error
    if column.shape != (size,):
        raise ValueError(f"{name}: got shape {column.shape}, expected ({size},)")
    bad = ~np.isfinite(column) & ~(may_be_impossible & (column == -np.inf))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name}: got {column[row]} in row {row}, expected a finite number")
    return column


class Observations:
    """Observations of steps. Slices are read when they are accessed, because all observations may not fit into memory.

    float64 observations are cast to float32, as in training.

    Args:
        table: Table that contains the observations.
        rows: Rows of the steps in the table, [n].
        n_frames: Number of consecutive images that are stacked.
        following: True for the observations after the steps, False for the observations before them.
    """

    def __init__(self, table: Table, rows: Indices, n_frames: int, following: bool = False) -> None:
        self._table, self._rows, self._n_frames, self._following = table, rows, n_frames, following

    def __len__(self) -> int:
        return len(self._rows)

    def stacked_for(self, algo: Any) -> Self:
        """Return the observations with `algo.n_frames` stacked images, or unchanged if `algo` has no `n_frames`."""
        return type(self)(self._table, self._rows, getattr(algo, "n_frames", self._n_frames), self._following)

    def __getitem__(self, part: slice) -> Any:
        obs = observations_of(self._table, self._rows[part], self._n_frames, following=self._following)
        return map_nested(lambda leaf: leaf.astype(np.float32) if leaf.dtype == np.float64 else leaf, obs)


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Transitions of E episodes, one episode after the other. `reward[i]` is the reward of `action[i]`.

    Attributes:
        obs: Observations with stacked images, [n, ...].
        action: Actions, [n, A] or [n].
        reward: Rewards, [n].
        lengths: Number of transitions of each episode, [E].
        truncated: True for truncated episodes, [E].
        last_obs: Last observation of each episode, with stacked images, [E, ...].
        log_prob: Recorded log-probabilities of the actions, [n]. None if an episode has no recorded log-probabilities.
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
        """Return the transitions of a selection, with `n_frames` stacked images. Empty episodes are skipped."""
        table, steps = selection.dataset.table, selection.rows
        lengths = np.array([len(episode) for episode in selection.episodes if len(episode)])
        last = steps[np.cumsum(lengths) - 1]
        return cls(
            Observations(table, steps, n_frames), table.action[steps - 1], table.reward[steps - 1], lengths,
            ~table.terminal[last], Observations(table, last, n_frames, following=True),
            None if table.log_prob is None else table.log_prob[steps - 1],
        )  # fmt: skip


def first_observation(selection: Selection, n_frames: int) -> Any:
    """Return the first observation of a selection, with `n_frames` stacked images."""
    return rows_of_stack(Observations(selection.dataset.table, selection.rows, n_frames)[:1])[0]


def in_chunks(function: Callable[..., Column], *columns: Any) -> Column:
    """Apply a function to chunks of the rows of columns, and return the concatenated results, [n, ...].

    Args:
        function: Function of slices of the columns that returns an array with the same number of rows.
        columns: Objects that support `len` and slicing.
    """
    starts = range(0, max(1, len(columns[0])), _ROWS)  # if there are no rows, one call determines the shape
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])
