"""Recorded episodes as estimators see them, a row for each; estimates with intervals (bootstrap over episodes)."""

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
from pfrl_like.learning.compatibility.spaces import OneObservation
from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.random import RandomSource, check_rng

Array = NDArray[np.float64]


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


Column = NDArray[Any]
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


def first_of(selection: Selection, n_frames: int) -> OneObservation:
    """The first observation of a selection, with so many frames stacked, by which policies are tried."""
    return OneObservation(observed(selection.dataset.table, selection.rows[:1], n_frames)[0])


def in_parts(function: Callable[..., Column], *columns: Any) -> Column:
    """A function's values for all rows of columns, [n, ...], asked for some thousand rows at a time.

    Args:
        function: From slices of the columns to an array of as many rows.
        columns: What has a length and gives slices.
    """
    starts = range(0, max(1, len(columns[0])), _ROWS)  # the values of none have a shape, too
    return np.concatenate([function(*(column[start : start + _ROWS] for column in columns)) for start in starts])


#: Gives of resamples, [B, E] counts, the values, [B], and the influence of each episode, [B, E].
Statistic = Callable[[Array], tuple[Array, Array]]
#: The kinds of intervals.
KINDS = ("percentile", "bca", "studentized")
#: Parts of a right angle, for quantiles of Student's t.
_ANGLES = 20_000
#: Numbers held at once.
_AT_ONCE = 2_000_000


def standard_error(counts: Array, influence: Array) -> Array:
    """Standard errors of values by their influence functions, [B]."""
    size = counts.sum(1)
    spread = (counts * influence**2).sum(1)
    return np.asarray(np.sqrt(spread / (size * np.maximum(size - 1.0, 1.0))))


def bootstrap(statistic: Statistic, n_episodes: int, n_resamples: int, width: int, rng: RandomSource) -> Array:
    """Values and standard errors of resamples of episodes, drawn with replacement, [2, n_resamples].

    Args:
        statistic: What is computed.
        n_episodes: How many there are.
        n_resamples: How often they are drawn.
        width: Numbers that the statistic holds for each resample.
        rng: Source of randomness; None is the global NumPy stream.
    """
    source: Any = np.random if rng is None else rng
    at_once = max(1, _AT_ONCE // width)
    found = []
    for start in range(0, n_resamples, at_once):
        size = min(at_once, n_resamples - start)
        counts = source.multinomial(n_episodes, np.full(n_episodes, 1 / n_episodes), size=size).astype(np.float64)
        values, influence = statistic(counts)
        found.append(np.stack([values, standard_error(counts, influence)]))
    return np.concatenate(found, axis=1)


def interval(
    kind: str, confidence: float, value: float, error: float, influence: Array, resamples: Array
) -> tuple[float, float]:
    """An interval of a value from its resamples.

    Args:
        kind: "percentile", the quantiles of the resamples' values; "bca", other quantiles of them, corrected for bias
            and skewness; "studentized", quantiles of the resamples' distances in units of their own standard errors,
            made larger as the quantiles of Student's t are for the degrees of freedom of the error.
        confidence: How often it should hold the truth.
        value: The value.
        error: Its standard error.
        influence: How much each episode moves it, [E].
        resamples: What `bootstrap` gives.
    """
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    values, errors = resamples
    if kind == "studentized":
        usable = errors > 1e-9 * error
        if error > 0 and usable.any():
            distance = (values[usable] - value) / errors[usable]
            wider = student_quantile(tails[1], error_freedom(influence)) / NormalDist().inv_cdf(tails[1])
            low, high = value - error * wider * np.quantile(distance, tails[::-1])
            return float(low), float(high)
    elif kind == "bca":
        tails = _corrected(tails, value, influence, values)
    low, high = np.quantile(values, tails)
    return float(low), float(high)


def error_freedom(influence: Array) -> float:
    """Degrees of freedom of a standard error, by its influence function [E]: (sum x**2)**2 / sum x**4 - 1, at least 1.

    Each episode gives the variance one degree, in proportion to the square of its influence (Satterthwaite 1946,
    doi:10.2307/3002019); one goes to the mean. Where few episodes of large weight make up the error, it is
    little more certain than they are, however many others there are.
    """
    squares = np.square(influence / max(np.abs(influence).max(), 1e-300))
    worth = squares.sum() ** 2 / max(np.square(squares).sum(), 1e-300)
    return float(max(worth - 1.0, 1.0))


def student_quantile(level: float, freedom: float) -> float:
    """A quantile of Student's t, for levels from 1/2 on.

    With t = sqrt(freedom) tan(u) the density of u is proportional to cos(u)**(freedom - 1), which is summed up.
    """
    angle = np.linspace(0.0, np.pi / 2, _ANGLES + 1)
    below = np.append(0.0, np.cumsum(np.cos((angle[1:] + angle[:-1]) / 2) ** (freedom - 1)))
    return float(np.sqrt(freedom) * np.tan(np.interp((2 * level - 1) * below[-1], below, angle)))


def _corrected(tails: Array, value: float, influence: Array, values: Array) -> Array:
    """The quantiles of a BCa interval (Efron 1987, doi:10.1080/01621459.1987.10478410, eq. 2.3)."""
    normal = NormalDist()
    below = ((values < value).mean() + (values <= value).mean()) / 2
    bias = normal.inv_cdf(float(np.clip(below, 0.5 / len(values), 1 - 0.5 / len(values))))
    cubes, squares = (influence**3).sum(), (influence**2).sum()
    acceleration = float(cubes / (6 * squares**1.5)) if squares > 0 else 0.0
    shifted = [bias + normal.inv_cdf(float(tail)) for tail in tails]
    return np.array([normal.cdf(bias + each / max(1 - acceleration * each, 1e-6)) for each in shifted])


#: Below so many episodes' worth, an estimate by importance weights is warned of.
FEW_EPISODES = 30.0


class UnreliableEstimateWarning(UserWarning):
    """An estimate rests on too little for its interval to be trusted.

    Args:
        message: What it rests on.
        effective_sample_size: How many episodes of the evaluated policy's own the weights leave.
    """

    def __init__(self, message: str, effective_sample_size: float = float("nan")) -> None:
        super().__init__(message)
        self.effective_sample_size = effective_sample_size


@dataclasses.dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: by a bootstrap over whole episodes.

    Args:
        kind: "percentile", "bca" or "studentized".
        confidence: How often an interval should hold the truth, in (0, 1).
        n_resamples: How often the episodes are drawn anew.
        rng: Source of randomness; None is the global NumPy stream.

    Raises:
        ValueError: On other values.
        TypeError: On what is no number, no integer, or no generator.
    """

    kind: str = "studentized"
    confidence: float = 0.95
    n_resamples: int = 1000
    rng: RandomSource = None

    def __post_init__(self) -> None:
        check_counts(n_resamples=self.n_resamples)
        check_rng(self.rng)
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")
        check_numbers(0, 1, between=True, confidence=self.confidence)


def settings_of(interval: Bootstrap | None) -> Bootstrap:
    """How intervals are made; None stands for a `Bootstrap` as it is by default.

    Raises:
        TypeError: If it is something else.
    """
    if interval is not None and not isinstance(interval, Bootstrap):
        raise TypeError(f"interval is {interval!r:.80} ({type(interval).__name__}), expected a Bootstrap, or None")
    return Bootstrap() if interval is None else interval


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What the return of a policy was estimated to be.

    Attributes:
        estimator: What made it.
        value: The discounted return.
        interval: Its bootstrap interval, (low, high); NaN where a model alone tells the value.
        confidence: How often such intervals should hold the truth.
        kind: The kind of interval.
        standard_error: By the delta method; NaN likewise.
        effective_sample_size: How many episodes of the evaluated policy's own the weights leave; NaN where none count.
        n_episodes: Episodes that were looked at.
        n_truncated: How many of them were cut off. What would have come after counts only as far as a model tells it.
        warning: Why it should not be trusted; "" if nothing is known against it.
        start_state_interval: Where a model alone tells the value: the bootstrap interval of the mean of its values of
            start states, (low, high). It holds how start states differ, and not how wrong the model is. None of others.
    """

    estimator: str
    value: float
    interval: tuple[float, float]
    confidence: float
    kind: str
    standard_error: float
    effective_sample_size: float
    n_episodes: int
    n_truncated: int
    warning: str = ""
    start_state_interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        name, (low, high) = "", self.interval
        if self.start_state_interval is not None:
            name, (low, high) = "spread of start states ", self.start_state_interval
        text = f"{self.estimator}: {self.value:.6g} {name}[{low:.6g}, {high:.6g}]"
        return f"{text} ({self.warning})" if self.warning else text


def weakness(episodes: LoggedEpisodes) -> tuple[str, float]:
    """What is to be said against importance weights, "" if nothing is; and how many episodes they leave."""
    found, expected = episodes.effective_sample_size, episodes.lognormal_sample_size
    left = min(found, expected)
    if left >= FEW_EPISODES:
        return "", left
    worth = f"the weights leave {f'{left:.3g}' if left == 0 or left >= 0.01 else 'less than 0.01'} of"
    worth = f"{worth} {len(episodes)} episodes"
    if found == 0:
        return f"{worth}: the evaluated policy never acts as any of them did to its end", left
    why = f", as widely as they spread ({found:.3g} by those that happened to come)" if expected < found else ""
    return f"{worth}{why}: the policies are too far apart for so few, or too many steps long", left
