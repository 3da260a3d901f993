"""Functions that check arrays and convert them to tables, in either reward convention."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import Field, Indices, as_array, shared_field
from pfrl_like.columns.leaves import ArrayLeaf, Rows, describe
from pfrl_like.columns.structure import structure_of
from pfrl_like.dataset.table import NEXT_ROW, NO_ACTION, NO_OBS, NO_REWARD, Table, check_convention
from pfrl_like.errors import NonFiniteError
from pfrl_like.utils.checks import warn_once
from pfrl_like.utils.env_values import space_kind

_ASSUMED = """\
reward_convention is not given, so MDPDataset reads rewards[t + 1] as the reward of actions[t] ("next_row"), as \
documented. In most recorded data rewards[t] is the reward of actions[t] ("same_row"). Example with two rows:

    t  actions[t]  rewards[t]  terminals[t]  reward for actions[t]: "next_row"  "same_row"
    0  left        1.0         0                                     5.0        1.0
    1  right       5.0         1                                     none       5.0

Pass the convention of your data: MDPDataset(..., reward_convention="same_row"), or reward_convention="next_row"."""
_REQUIRED = """\
reward_convention is not given, and releases of d3rlpy with episode_terminals disagree about these rewards: before 1.1 \
rewards[t + 1] is the reward of actions[t], in 1.1 rewards[t] is. Pass reward_convention="next_row" for data that \
were written for 0.60 to 1.0, or "same_row" for 1.1, gymnasium and D4RL."""
_INTEGER_VECTORS = (
    "actions are integers of shape {shape}, treated as continuous: pass discrete_action=True if the integers are "
    "indices, or actions.astype(np.float32) if the actions are continuous"
)

_WHOLE_NUMBERS = (
    "actions are floating-point whole numbers of shape {shape}, treated as discrete: pass discrete_action=True, or "
    "actions.reshape(-1, 1) if the actions are continuous"
)

_CHUNK_BYTES = 1 << 26
_ROUNDING = 1e-4  # tolerance for a log-probability of 0 that was computed in single precision


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
    """Convert arrays of n rows to a table of episodes.

    An episode ends in each row in which `terminals` or `timeouts` is True, and in the last row of the arrays. With
    `NEXT_ROW` the last row of an episode contains its last observation. With `SAME_ROW` the last row is an ordinary
    step if it is terminal or if `next_observations` is given. Otherwise the last row contains the last observation, and
    its reward is ignored.

    Args:
        observations: Array [n, ...], which is not copied. Or a dict or tuple of arrays, which are copied.
        actions: Actions, shape [n, A], or [n] or [n, 1] if they are discrete.
        rewards: Rewards, shape [n].
        terminals: Terminal flags, shape [n].
        timeouts: Truncation flags, shape [n]. None if no episode was truncated.
        discrete_action: True if actions are indices.
        reward_convention: `NEXT_ROW` or `SAME_ROW`.
        next_observations: Observations after the steps, only with `SAME_ROW`. None if they are unknown.
        log_probs: Log-probabilities (densities) of the actions, in the rows of the actions, shape [n]. None if they
            were not recorded.

    Raises:
        ValueError: If lengths, shapes or values are invalid. The message contains the row.
        NonFiniteError: If a value is NaN or infinite.
    """
    check_convention(reward_convention)
    field, n = field_of(observations)
    action = actions_of(actions, n, discrete_action)
    reward = numbers_of("rewards", rewards, n)
    terminal = flags_of("terminals", terminals, n)
    timeout = np.zeros(n, np.bool_) if timeouts is None else flags_of("timeouts", timeouts, n)
    if (terminal & timeout).any():
        row = int(np.argmax(terminal & timeout))
        raise ValueError(f"terminals and timeouts: both are set in row {row}: pass `timeouts & ~terminals` as timeouts")
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
            raise ValueError("next_observations: not supported for nested observations")
        before, after = field.leaves[0].data, following.leaves[0].data
        _check_continuity(before, after, last)
        field = shared_field(np.concatenate([before, after[ends]]))
        extended, end_obs = np.ones(len(ends), np.bool_), n + np.arange(len(ends))
    return table_from_rows(
        field, action, reward, terminal[ends], ends, extended, lead=lead, end_obs=end_obs, log_prob=log_prob
    )


def table_from_rows(
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
    """Build a table from rows in which each reward belongs to the action of its own row.

    Args:
        obs: The observations.
        action: Actions, shape [n, ...].
        reward: Rewards, shape [n].
        terminated: True if the episode ended in a terminal state, shape [E].
        ends: Last rows of the episodes, shape [E].
        extended: True if the last row is a step, False if it contains the last observation, shape [E].
        lead: Reward in the row of the first observation of each episode, before any action, shape [E]. None if unknown.
        obs_row: Rows of `obs` that contain the observations, shape [n]. If None, row i contains observation i.
        end_obs: Row of `obs` that contains the last observation of each extended episode, shape [extended.sum()]. None
            if unknown.
        log_prob: Log-probabilities of the actions, shape [n]. None if they were not recorded.
    """
    n, rows_in = len(action), np.diff(ends, prepend=-1)
    obs_row = np.arange(n) if obs_row is None else obs_row
    added = ends[extended]  # a row for the last observation is inserted after each of these rows

    def with_added_rows(values: NDArray[Any]) -> NDArray[Any]:
        return np.insert(values, added + 1, 0, 0) if len(added) else values

    lengths = rows_in + extended - 1
    last_rows = np.cumsum(lengths + 1) - 1
    all_obs_rows, all_rewards = with_added_rows(obs_row), with_added_rows(reward)
    all_obs_rows[last_rows[extended]] = obs_row[added] if end_obs is None else end_obs
    all_rewards[last_rows] = 0.0
    made_up = np.where(extended, NO_ACTION | (NO_OBS if end_obs is None else 0), 0) | (NO_REWARD if lead is None else 0)
    lead = np.zeros(len(ends)) if lead is None else lead
    recorded = None if log_prob is None else with_added_rows(log_prob)
    return Table(obs, all_obs_rows, with_added_rows(action), all_rewards, terminated, lengths, lead, made_up, recorded)


def _check_continuity(obs: NDArray[Any], following: NDArray[Any], last: NDArray[np.bool_]) -> None:
    """Raise an error if the next observation of a step differs from the observation of the next step."""
    for start in range(0, len(last) - 1, step := _chunk(obs)):
        stop = min(start + step, len(last) - 1)
        same = (obs[start + 1 : stop + 1] == following[start:stop]).reshape(stop - start, -1).all(1) | last[start:stop]
        if not same.all():
            row = start + int(np.argmin(same))
            advice = f"set timeouts[{row}] if the episode was truncated"
            raise ValueError(f"next_observations: row {row} differs from row {row + 1} of observations: {advice}")


def in_convention_or_default(table: Table, named: str | None) -> Table:
    """Return the table in the reward convention `named`. If it is None, use "next_row", and warn once per process."""
    if named is None:
        warn_once("reward_convention", _ASSUMED)
    return table.declared_as(named or NEXT_ROW, named is not None)


def logged_convention(data: Any) -> dict[str, str]:
    """Return the reward convention of a dataset, or of the dataset that an object samples from, as a log entry.

    The entry is empty if the source of the data has only one possible convention: `from_arrays`, replay buffers,
        Minari.
    """
    while hasattr(data, "dataset"):
        data = data.dataset
    table = getattr(data, "table", None)
    if not isinstance(table, Table) or table.declared is None:
        return {}
    return {"reward_convention": table.convention}


def truncations(
    episode_terminals: Any, terminals: Any, rewards: Any, timeouts: Any, reward_convention: str | None
) -> NDArray[np.bool_]:
    """Convert the ends of all episodes, as d3rlpy 0.60 to 1.1 has them, to the flags `timeouts`, shape [n].

    Args:
        episode_terminals: True in the last row of each episode, shape [n].
        terminals: Terminal flags, shape [n].
        rewards: Rewards, shape [n].
        timeouts: The argument of this name, which must be None.
        reward_convention: The argument of this name.

    Raises:
        ValueError: If there are `timeouts` too, if no episode ends, if a terminal row is not the last row of its
            episode, or if `reward_convention` is None and both conventions give different steps.
    """
    if timeouts is not None:
        raise ValueError("timeouts and episode_terminals: got both, expected only one of them")
    n = len(terminals)
    last, terminal = flags_of("episode_terminals", episode_terminals, n), flags_of("terminals", terminals, n)
    if not last.any():
        raise ValueError("episode_terminals: is set in no row, expected 1 in the last row of each episode")
    if (terminal & ~last).any():
        row, advice = int(np.argmax(terminal & ~last)), "pass np.maximum(episode_terminals, terminals)"
        raise ValueError(f"episode_terminals: is not set in row {row}, but terminals is: {advice}")
    if reward_convention is None:
        reward, stop = numbers_of("rewards", rewards, n), int(np.flatnonzero(last)[-1])
        if terminal.any() or (reward[1 : stop + 1] != reward[:stop])[~last[:stop]].any():
            raise ValueError(_REQUIRED)
    return last & ~terminal


def kind_of_actions(action_space: Any, actions: Any, discrete_action: bool | None, by_value: bool) -> tuple[bool, int]:
    """Return True if actions are discrete, and the number of discrete actions, or 0 if it is unknown.

    Args:
        action_space: Box or Discrete of gymnasium, or a member "DISCRETE" or "CONTINUOUS" of an enumeration. None if
            unknown.
        actions: The actions.
        discrete_action: The user's argument. If None, the actions decide: they are discrete if each row contains a
            single integer of any dtype.
        by_value: True to let the actions decide, too, if there is one number for each row. If the numbers are
            floating-point, a warning is issued, once per process.

    Raises:
        ValueError: If `discrete_action` is True and the space is continuous, if a discrete action is not in the space,
            or if the shape of continuous actions is not that of the space. Bounds of a Box are not checked.
        TypeError: If `action_space` is neither a space nor a kind of actions.
    """
    if action_space is None:
        if discrete_action is None or (by_value and not discrete_action and np.ndim(actions) == 1):
            values = np.asarray(actions)
            discrete = values.size == len(values) and bool((values % 1 == 0).all())
            if discrete and discrete_action is not None and values.dtype.kind == "f":
                warn_once("whole_numbers", _WHOLE_NUMBERS.format(shape=values.shape))
            return discrete, 0
        return bool(discrete_action), 0
    names = {"DISCRETE": "discrete", "CONTINUOUS": "box"}
    kind = names.get(getattr(action_space, "name", "")) or space_kind(action_space)
    if kind not in names.values():
        raise TypeError(f"action_space is {action_space!r:.80}, expected a Discrete, a Box or an ActionSpace")
    if discrete_action and kind != "discrete":
        raise ValueError(f"discrete_action is True, but action_space is {action_space}, expected a Discrete")
    shape = getattr(action_space, "shape", None)
    if kind == "box" and shape is not None and np.ndim(actions) > 1 and np.shape(actions)[1:] != shape:
        raise ValueError(f"actions: got shape {np.shape(actions)}, expected {(len(actions), *shape)} of action_space")
    if getattr(action_space, "start", 0):
        advice = f"subtract {action_space.start} from actions, and pass Discrete({action_space.n})"
        raise ValueError(f"action_space is {action_space}, expected a Discrete that starts at 0: {advice}")
    size = int(getattr(action_space, "n", 0)) if kind == "discrete" else 0
    if size and np.max(actions) >= size:
        raise ValueError(f"actions: got {np.max(actions)}, expected actions of action_space, below {size}")
    return kind == "discrete", size


def warn_of_integer_vectors(actions: Any) -> None:
    """Warn, once per process, if actions are integers [n, 1]. They may be indices, but are treated as continuous."""
    array = np.asarray(actions)
    if array.dtype.kind in "biu" and array.shape[1:] == (1,) and array.min() >= 0:
        warn_once("discrete_action", _INTEGER_VECTORS.format(shape=array.shape))


def actions_of(actions: Any, n: int, discrete: bool) -> NDArray[Any]:
    """Return discrete actions as int64, shape [n], or continuous actions as floats, shape [n, A].

    Raises:
        ValueError: If the number or the shape of actions is wrong, or if discrete actions are not indices.
        NonFiniteError: If an action is NaN or infinite.
    """
    array = _array("actions", actions)
    if len(array) != n:
        raise ValueError(f"actions: got {len(array)} rows, expected {n} like observations")
    if not discrete:
        if array.ndim != 2:
            advice = ": pass discrete_action=True, or actions.reshape(-1, 1) if they are continuous"
            hint = advice if array.ndim == 1 else ""
            raise ValueError(f"actions: got shape {array.shape}, expected ({n}, size of an action){hint}")
        _check_finite("actions", array)
        return array if array.dtype.kind == "f" else array.astype(np.float32)
    if array.size != n:
        raise ValueError(f"actions: got shape {array.shape}, expected ({n},) of discrete actions")
    flat = array.reshape(n)
    _check_finite("actions", flat)
    _check_rows("actions", flat, (flat < 0) | (flat % 1 != 0), "integers >= 0")
    return flat.astype(np.int64)


def numbers_of(name: str, values: Any, n: int) -> NDArray[np.float64]:
    """Return finite numbers, shape [n], from an array [n] or [n, 1].

    Raises:
        ValueError: If the shape is wrong.
        NonFiniteError: If a number is NaN or infinite.
    """
    array = _flat(name, values, n)
    _check_finite(name, array)
    return array.astype(np.float64)


def log_probs_of(name: str, values: Any, n: int, discrete: bool) -> NDArray[np.float64]:
    """Return log-probabilities of discrete actions, or log-densities of continuous actions, [n], after a check.

    Log-densities may be positive.

    Raises:
        ValueError: If the shape is wrong, or a log-probability is above 0.
        NonFiniteError: If a number is NaN or infinite.
    """
    array = numbers_of(name, values, n)
    if discrete:
        _check_rows(name, array, array > _ROUNDING, "log-probabilities <= 0")
    return array


def flags_of(name: str, values: Any, n: int) -> NDArray[np.bool_]:
    """Return flags, shape [n], from an array [n] or [n, 1] of 0 and 1.

    Raises:
        ValueError: If the shape is wrong, or a number is neither 0 nor 1.
    """
    array = _flat(name, values, n)
    _check_rows(name, array, (array != 0) & (array != 1), "0 or 1")
    return array.astype(np.bool_)


def _check_rows(name: str, array: NDArray[Any], bad: NDArray[np.bool_], expected: str) -> None:
    """Raise an error that contains the first row in which `bad` is True, if there is such a row."""
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{name}: got {array[row]} in row {row}, expected {expected}")


def _flat(name: str, values: Any, n: int) -> NDArray[Any]:
    array = _array(name, values)
    if array.shape not in ((n,), (n, 1)):
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},) because observations have {n} rows")
    return array.reshape(n)


def _array(name: str, values: Any) -> NDArray[Any]:
    array = as_array(values)
    if array is None or not array.ndim or array.dtype.kind not in "biuf" or not len(array):
        raise ValueError(f"{name}: got {describe(values)}, expected an array of real numbers with n rows")
    return array


def field_of(values: Any, name: str = "observations") -> tuple[Field, int]:
    """Return a field that contains stacked observations [n, ...] from row 0 on, and n.

    Args:
        values: An array, which is not copied, or a dict or tuple of arrays, which are copied. Memory-mapped arrays are
            not checked for NaN and infinity.
        name: Name of the observations in error messages.

    Raises:
        ValueError: If a part is not an array of real numbers, or if arrays differ in length or have no rows.
        NonFiniteError: If a value is NaN or infinite.
    """
    structure, leaves = structure_of(values)
    arrays = [as_array(leaf) for leaf in leaves]
    plain = [array for array in arrays if array is not None and array.ndim and array.dtype.kind != "c"]
    if not arrays or len(plain) < len(arrays):
        raise ValueError(f"{name}: got {describe(values)}, expected arrays of real numbers, shape [n, ...]")
    n = len(plain[0])
    if any(len(array) != n for array in plain):
        raise ValueError(f"{name}: got arrays of lengths {[len(array) for array in plain]}, expected equal lengths")
    if not n:
        raise ValueError(f"{name}: got an empty array, expected at least one row")
    for leaf, array in zip(leaves, plain, strict=True):
        if not isinstance(leaf, np.memmap):
            _check_finite(name, array)
    if structure == 0:
        return shared_field(plain[0]), n
    rows = Rows()
    field = Field(rows, structure, [ArrayLeaf(rows, array.shape[1:], array.dtype, strict=True) for array in plain])
    rows.reserve(n - 1)
    rows.free.clear()
    for leaf, array in zip(field.leaves, plain, strict=True):
        leaf.data[:n] = array
    return field, n


def _check_finite(name: str, array: NDArray[Any]) -> None:
    """Raise an error that contains the first row with NaN or infinity, if there is such a row."""
    if array.dtype.kind != "f":
        return
    for start in range(0, len(array), step := _chunk(array)):
        finite = np.isfinite(array[start : start + step])
        if not finite.all():
            row = start + int(np.argmin(finite.reshape(len(finite), -1).all(1)))
            raise NonFiniteError(name, f"{name}: got {array[row]} in row {row}, expected finite numbers")


def _chunk(array: NDArray[Any]) -> int:
    """Return the number of rows in a chunk."""
    return max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
