"""Conversions of tables from and to pandas frames with one row per time step."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns import as_array
from pfrl_like.dataset.conventions import actions_of, flags_of, table_from_arrays
from pfrl_like.dataset.flat import CONVENTION, SHOWN, consistent_value, flat_of, in_dataset_convention
from pfrl_like.dataset.table import SAME_ROW, Table
from pfrl_like.errors import MissingDependencyError, NonFiniteError


def table_from_frame(
    frame: Any,
    observations: Sequence[str],
    actions: str | Sequence[str],
    next_observations: Sequence[str] | None,
    reward: str,
    optional: Mapping[str, str | None],
    reward_convention: str | None,
) -> tuple[Table, bool]:
    """Convert a frame to a table. Also return True if the actions are discrete.

    The arguments are the arguments of `from_dataframe`. `optional` maps `terminal`, `timeout`, `episode` and `log_prob`
    to their column names.

    Raises:
        ValueError: If the data are invalid, if a value is missing or not numeric, or if a list of columns is empty.
        KeyError: If the frame does not have a column.
        TypeError: If `frame` is not a frame, or if an argument that must be a list is not a list.
    """
    lists = {"observations": observations, "actions": [actions] if isinstance(actions, str) else actions}
    lists |= {} if next_observations is None else {"next_observations": next_observations}
    single = {name: [column] for name, column in optional.items() if column is not None}
    _check_columns(frame, reward=[reward], **lists, **single)
    stated_convention = consistent_value(CONVENTION, frame.attrs.get(CONVENTION), reward_convention)
    convention = SAME_ROW if stated_convention is None else stated_convention
    action = _indices(frame, actions) if isinstance(actions, str) else _vectors(frame, "actions", actions)
    obs, following = _vectors(frame, "observations", observations), None
    if next_observations is not None:
        if (n_columns := len(next_observations)) != len(observations):
            expected = f"{len(observations)}, as many as observations"
            raise ValueError(f"next_observations: got {n_columns} columns, expected {expected}")
        following = _vectors(frame, "next_observations", next_observations)
        dtype = np.result_type(obs, following)
        obs, following = obs.astype(dtype, copy=False), following.astype(dtype, copy=False)
    ended, cut = (_flags(frame, name, optional[name]) for name in ("terminal", "timeout"))
    if optional["episode"] is not None:
        number = frame[optional["episode"]].to_numpy()
        cut |= np.append(number[1:] != number[:-1], True) & ~ended
    log_prob = optional["log_prob"]
    table = table_from_arrays(
        obs, action, _numbers(frame, "reward", reward), ended, cut,
        discrete_action=isinstance(actions, str), reward_convention=convention,
        next_observations=following,
        log_probs=None if log_prob is None else _numbers(frame, "log_prob", log_prob),
    )  # fmt: skip
    return in_dataset_convention(table, frame.attrs.get(SHOWN), convention), isinstance(actions, str)


def frame_of(table: Table, discrete: bool, convention: str | None) -> Any:
    """Convert a table to a frame, as documented in `to_dataframe`.

    Raises:
        MissingDependencyError: If pandas is not installed.
        ValueError: If observations are not vectors, if the convention is unknown, or if the result has no rows.
    """
    try:
        import pandas
    except ImportError as error:
        raise MissingDependencyError("pandas", "MDPDataset.to_dataframe") from error
    if not table.is_array or len(table.obs_shape) != 1:
        raise ValueError(f"observations: got shape {table.obs_shape}, expected vectors")
    flat = flat_of(table, discrete, convention)
    arrays = flat.arrays
    columns = {f"observation_{i}": column for i, column in enumerate(arrays["observations"].T)}
    actions = arrays["actions"]
    columns |= {"action": actions} if discrete else {f"action_{i}": column for i, column in enumerate(actions.T)}
    names = ("rewards", "terminals", "timeouts", "log_probs")
    columns |= {name.removesuffix("s"): arrays[name] for name in names if name in arrays}
    ends = arrays["episode_terminals"]
    frame = pandas.DataFrame(columns | {"episode": np.cumsum(ends) - ends})
    frame.attrs.update(flat.conventions())
    return frame


def _check_columns(frame: Any, **named: Sequence[str]) -> None:
    """Raise an error if `frame` is not a frame, a column does not exist, or a value is missing."""
    if not hasattr(frame, "columns") or not hasattr(frame, "attrs"):
        raise TypeError(f"frame is {type(frame).__name__}, expected a pandas DataFrame")
    for argument, names in named.items():
        if isinstance(names, str) or not isinstance(names, Collection):
            raise TypeError(f"{argument} is {names!r}, expected a list of columns")
        if not len(names):
            raise ValueError(f"{argument}: got {names!r}, expected at least one column")
        if unknown := [name for name in names if not isinstance(name, Hashable) or name not in frame.columns]:
            raise KeyError(f"{argument}: the frame has no column {unknown[0]!r}, only {[*frame.columns]}")
        for name in names:
            missing = frame[name].isna().to_numpy()
            if missing.any():
                row = int(np.argmax(missing))
                raise NonFiniteError(name, f"{argument}: column {name!r} has no value in row {row}, expected a number")


def _numbers(frame: Any, argument: str, column: str) -> NDArray[Any]:
    """Return the numbers in a column."""
    values = frame[column].to_numpy()
    numbers = as_array(values.tolist() if values.dtype == object else values)
    if numbers is None or numbers.ndim != 1:
        row = next((i for i, value in enumerate(values) if as_array(value) is None or np.ndim(value)), 0)
        raise ValueError(f"{argument}: column {column!r} contains {values[row]!r:.80} in row {row}, expected numbers")
    return numbers


def _vectors(frame: Any, argument: str, columns: Sequence[str]) -> NDArray[Any]:
    """Return the numbers in some columns, shape [n, number of columns]."""
    return np.stack([_numbers(frame, argument, column) for column in columns], axis=1)


def _flags(frame: Any, argument: str, column: str | None) -> NDArray[np.bool_]:
    """Return the flags in a column. If `column` is None, no flag is set."""
    n = len(frame)
    if column is None:
        return np.zeros(n, np.bool_)
    return flags_of(f"{argument}: column {column!r}", _numbers(frame, argument, column), n)


def _indices(frame: Any, column: str) -> NDArray[Any]:
    """Return the discrete actions in a column."""
    try:
        return actions_of(_numbers(frame, "actions", column), len(frame), True)
    except ValueError as error:
        raise ValueError(f"{error}; for continuous actions, pass a list of columns, actions=[{column!r}]") from error
