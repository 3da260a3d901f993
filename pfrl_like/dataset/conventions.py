"""Tables made from arrays in either reward convention, and the checks that all data pass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Field, Indices, as_array, shared_field
from pfrl_like.columns.leaves import ArrayLeaf, Rows, describe
from pfrl_like.columns.structure import structure_of
from pfrl_like.dataset.table import NEXT_ROW, NO_ACTION, NO_OBS, NO_REWARD, Table, check_convention
from pfrl_like.errors import NonFiniteError
from pfrl_like.utils.checks import warn_once

_ASSUMED = """\
reward_convention is not given, so MDPDataset reads rewards[t + 1] as the reward for actions[t] ("next_row"), as \
documented. In most recorded data rewards[t] is the reward for actions[t] ("same_row"). Two rows as an example:

    t  actions[t]  rewards[t]  terminals[t]  reward for actions[t]: "next_row"  "same_row"
    0  left        1.0         0                                     5.0        1.0
    1  right       5.0         1                                     none       5.0

Name the one that fits the data: MDPDataset(..., reward_convention="same_row"), or reward_convention="next_row"."""
_INTEGER_VECTORS = (
    "actions are integers of shape {shape}, which MDPDataset takes as continuous: discrete actions need "
    "discrete_action=True; actions.astype(np.float32), if they are continuous, avoids this warning"
)

_CHUNK_BYTES = 1 << 26
_ROUNDING = 1e-4  # of a log-probability of 0 that a network computed in single precision


def table_from_arrays(
    observations: Any,
    actions: Any,
    rewards: Any,
    terminals: Any,
    timeouts: Any = None,
    *,
    discrete_action: bool,
    reward_convention: str,
    next_observations: Any = None,
    log_probs: Any = None,
) -> Table:
    """Table of the episodes in arrays of n rows each.

    An episode ends with each row whose `terminals` or `timeouts` is set, and with the last row of the arrays. With
    `NEXT_ROW` the last row of an episode holds its last observation. With `SAME_ROW` the last row is an ordinary step
    if it is terminal or if `next_observations` are given. Otherwise it serves as the last observation, and its reward
    is left out.

    Args:
        observations: Array [n, ...], or a dict or tuple of such. Plain ones are not copied.
        actions: Shape [n, A], or [n] or [n, 1] if they are discrete.
        rewards: Shape [n].
        terminals: Flags, shape [n].
        timeouts: Flags, shape [n]; None for none.
        discrete_action: Whether actions are indices.
        reward_convention: `NEXT_ROW` or `SAME_ROW`.
        next_observations: With `SAME_ROW`, the observations after the steps.
        log_probs: Log-probabilities (densities) of the actions in their own rows, shape [n]; None if not recorded.

    Raises:
        ValueError: If lengths, shapes or values are invalid; the text names the row.
        NonFiniteError: On NaN or infinity.
    """
    check_convention(reward_convention)
    field, n = field_of(observations)
    action = actions_of(actions, n, discrete_action)
    reward = numbers_of("rewards", rewards, n)
    terminal = flags_of("terminals", terminals, n)
    timeout = np.zeros(n, np.bool_) if timeouts is None else flags_of("timeouts", timeouts, n)
    if (terminal & timeout).any():
        row = int(np.argmax(terminal & timeout))
        raise ValueError(
            f"terminals and timeouts: both are set in row {row}, expected one of them: a step that is both has "
            "ended in a terminal state, so give `timeouts & ~terminals`"
        )
    log_prob = None if log_probs is None else log_probs_of("log_probs", log_probs, n, discrete_action)
    last = terminal | timeout
    last[-1] = True
    ends = np.flatnonzero(last)
    extended, lead, end_obs = terminal[ends], None, None
    if reward_convention == NEXT_ROW:
        if next_observations is not None:
            raise ValueError(f"next_observations: cannot be used with reward_convention={NEXT_ROW!r}")
        extended, lead = np.zeros(len(ends), np.bool_), reward[np.append(0, ends[:-1] + 1)]
        reward = np.append(reward[1:], 0.0)
    elif next_observations is not None:
        following, n_following = field_of(next_observations, "next_observations")
        if following.spec() != field.spec() or n_following != n:
            raise ValueError("next_observations: expected the same length, shape and dtype as observations")
        if field.structure != 0:
            raise ValueError("next_observations: expected plain arrays; give nested observations episode by episode")
        before, after = field.leaves[0].data, following.leaves[0].data
        _check_continuity(before, after, last)
        field = shared_field(np.concatenate([before, after[ends]]))
        extended, end_obs = np.ones(len(ends), np.bool_), n + np.arange(len(ends))
    return assembled(
        field, action, reward, terminal[ends], ends, extended, lead=lead, end_obs=end_obs, log_prob=log_prob
    )


def assembled(
    obs: Field,
    action: NDArray[Any],
    reward: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    ends: Indices,
    extended: NDArray[np.bool_],
    *,
    lead: NDArray[np.float64] | None = None,
    obs_row: Indices | None = None,
    end_obs: Indices | None = None,
    log_prob: NDArray[np.float64] | None = None,
) -> Table:
    """Table of rows in which each reward is for the action of its own row.

    Args:
        obs: The observations.
        action: Actions, shape [n, ...].
        reward: Rewards, shape [n].
        terminated: Whether the episodes ended in a terminal state, shape [E].
        ends: Last rows of the episodes, shape [E].
        extended: Whether the last rows are steps, shape [E]; the others hold the last observations.
        lead: Rewards before the first action, shape [E]; None if unknown.
        obs_row: Rows of `obs` that hold the observations, shape [n]; None if they are in order, row by row.
        end_obs: Row of `obs` that holds the last observation of each extended episode, shape [extended.sum()]; None if
            unknown.
        log_prob: Log-probabilities of the actions, shape [n]; None if not recorded.
    """
    n, rows_in = len(action), np.diff(ends, prepend=-1)
    obs_row = np.arange(n) if obs_row is None else obs_row
    added = ends[extended]  # the row of the last observation is inserted after these rows

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        return np.insert(values, added + 1, 0, 0) if len(added) else values

    lengths = rows_in + extended - 1
    last_rows = np.cumsum(lengths + 1) - 1
    whole_obs_row, paid = spread(obs_row), spread(reward)
    whole_obs_row[last_rows[extended]] = obs_row[added] if end_obs is None else end_obs
    paid[last_rows] = 0.0
    made_up = np.where(extended, NO_ACTION | (NO_OBS if end_obs is None else 0), 0) | (NO_REWARD if lead is None else 0)
    lead = np.zeros(len(ends)) if lead is None else lead
    recorded = None if log_prob is None else spread(log_prob)
    return Table(obs, whole_obs_row, spread(action), paid, terminated, lengths, lead, made_up, recorded)


def _check_continuity(obs: NDArray[Any], following: NDArray[Any], last: NDArray[np.bool_]) -> None:
    """Refuse next observations that are not the observations of the next rows."""
    for start in range(0, len(last) - 1, step := _chunk(obs)):
        stop = min(start + step, len(last) - 1)
        same = (obs[start + 1 : stop + 1] == following[start:stop]).reshape(stop - start, -1).all(1) | last[start:stop]
        if not same.all():
            row = start + int(np.argmin(same))
            raise ValueError(
                f"next_observations: row {row} differs from row {row + 1} of observations, in the same episode; "
                f"set timeouts[{row}] where an episode was cut off"
            )


def in_named_convention(table: Table, named: str | None) -> Table:
    """Table shown in the convention in which its arrays were read; the documented one ("next_row") if none was named.

    Warns once a process if none was named.
    """
    if named is None:
        warn_once("reward_convention", _ASSUMED)
    return table.declared_as(named or NEXT_ROW, named is not None)


def logged_convention(data: Any) -> dict[str, str]:
    """Reward convention of a dataset, or of the dataset that an object draws from, as an entry for logs.

    It is left out where the source allows only one reading: arrays of `from_arrays`, replay buffers, Minari's sets.
    """
    while hasattr(data, "dataset"):
        data = data.dataset
    table = getattr(data, "table", None)
    if not isinstance(table, Table) or table.declared is None:
        return {}
    return {"reward_convention": table.convention}


def warn_of_integer_vectors(actions: Any) -> None:
    """Warn, once a process, that integer actions [n, 1], possibly indices, are treated as continuous."""
    array = np.asarray(actions)
    if array.dtype.kind in "biu" and array.shape[1:] == (1,) and array.min() >= 0:
        warn_once("discrete_action", _INTEGER_VECTORS.format(shape=array.shape))


def actions_of(actions: Any, n: int, discrete: bool) -> NDArray[Any]:
    """Actions as [n] int64 if they are discrete, else as [n, A] of floats.

    Raises:
        ValueError: If their number or shape is wrong, or if discrete ones are no indices; the text names the row.
        NonFiniteError: On NaN or infinity.
    """
    array = _array("actions", actions)
    if len(array) != n:
        raise ValueError(f"actions: got {len(array)} rows, expected {n} as of observations")
    if not discrete:
        if array.ndim != 2:
            of_one = "; discrete actions need discrete_action=True, actions of one number reshape(-1, 1)"
            hint = of_one if array.ndim == 1 else ""
            raise ValueError(f"actions: got shape {array.shape}, expected ({n}, size of an action){hint}")
        _refuse_non_finite("actions", array)
        return array if array.dtype.kind == "f" else array.astype(np.float32)
    if array.size != n:
        raise ValueError(f"actions: got shape {array.shape}, expected ({n},) of discrete actions")
    flat = array.reshape(n)
    _refuse_non_finite("actions", flat)
    _refuse_rows("actions", flat, (flat < 0) | (flat % 1 != 0), "whole numbers from 0 on")
    return flat.astype(np.int64)


def numbers_of(name: str, values: Any, n: int) -> NDArray[np.float64]:
    """Finite numbers, shape [n], from an array [n] or [n, 1].

    Raises:
        ValueError: On another shape.
        NonFiniteError: On NaN or infinity.
    """
    array = _flat(name, values, n)
    _refuse_non_finite(name, array)
    return array.astype(np.float64)


def log_probs_of(name: str, values: Any, n: int, discrete: bool) -> NDArray[np.float64]:
    """Log-probabilities of discrete actions, or log-densities of continuous ones, which may be positive, shape [n].

    Raises:
        ValueError: On another shape, or a log-probability above 0; the text names the row.
        NonFiniteError: On NaN or infinity.
    """
    array = numbers_of(name, values, n)
    if discrete:
        _refuse_rows(name, array, array > _ROUNDING, "log-probabilities, which are at most 0")
    return array


def flags_of(name: str, values: Any, n: int) -> NDArray[np.bool_]:
    """Flags, shape [n], from an array [n] or [n, 1] of 0 and 1.

    Raises:
        ValueError: On another shape, or other numbers; the text names the row.
    """
    array = _flat(name, values, n)
    _refuse_rows(name, array, (array != 0) & (array != 1), "0 or 1")
    return array.astype(np.bool_)


def _refuse_rows(name: str, array: NDArray[Any], bad: NDArray[np.bool_], expected: str) -> None:
    """Refuse bad rows, naming the first."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name}: got {array[row]} in row {row}, expected {expected}")


def _flat(name: str, values: Any, n: int) -> NDArray[Any]:
    array = _array(name, values)
    if array.shape not in ((n,), (n, 1)):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},) as observations have {n} rows")
    return array.reshape(n)


def _array(name: str, values: Any) -> NDArray[Any]:
    array = as_array(values)
    if array is None or not array.ndim or array.dtype.kind not in "biuf" or not len(array):
        raise ValueError(f"{name}: got {describe(values)}, expected an array with real numbers for each row")
    return array


def field_of(values: Any, name: str = "observations") -> tuple[Field, int]:
    """Field of stacked observations [n, ...], from row 0 on, and n; plain ones are shared, dicts and tuples copied.

    `name` is their name in error messages. Memory-mapped files are not searched for NaN and infinity.

    Raises:
        ValueError: If a leaf is no array of real numbers, or if nested arrays differ in length or have no rows.
        NonFiniteError: On NaN or infinity.
    """
    structure, leaves = structure_of(values)
    arrays = [as_array(leaf) for leaf in leaves]
    plain = [array for array in arrays if array is not None and array.ndim and array.dtype.kind != "c"]
    if not arrays or len(plain) < len(arrays):
        raise ValueError(f"{name}: got {describe(values)}, expected arrays of real numbers, shape [n, ...]")
    n = len(plain[0])
    if any(len(array) != n for array in plain):
        raise ValueError(f"{name}: got arrays of lengths {[len(array) for array in plain]}, expected one length")
    if not n:
        raise ValueError(f"{name}: got an empty array, expected at least one row")
    for leaf, array in zip(leaves, plain, strict=True):
        if not isinstance(leaf, np.memmap):
            _refuse_non_finite(name, array)
    if structure == 0:
        return shared_field(plain[0]), n
    rows = Rows()
    field = Field(rows, structure, [ArrayLeaf(rows, array.shape[1:], array.dtype, strict=True) for array in plain])
    rows.reserve(n - 1)
    rows.free.clear()
    for leaf, array in zip(field.leaves, plain, strict=True):
        leaf.data[:n] = array
    return field, n


def _refuse_non_finite(name: str, array: NDArray[Any]) -> None:
    """Refuse NaN and infinity, naming the first row that holds one."""
    if array.dtype.kind != "f":
        return
    for start in range(0, len(array), step := _chunk(array)):
        finite = np.isfinite(array[start : start + step])
        if not finite.all():
            row = start + int(np.argmin(finite.reshape(len(finite), -1).all(1)))
            raise NonFiniteError(name, f"{name}: got {array[row]} in row {row}, expected finite numbers")


def _chunk(array: NDArray[Any]) -> int:
    """Number of rows that are checked at a time."""
    return max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
