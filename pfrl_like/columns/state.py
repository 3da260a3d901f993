"""Saving and restoring columns as a JSON header and named arrays. The arrays contain values, or locators of values."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.frames import MappedRows
from pfrl_like.columns.leaves import ArrayLeaf, Holder, Rows, expect, unique_in_order
from pfrl_like.columns.steps import ENDED, RUNNING, Indices, Running, Steps


def dump(
    columns: Columns, rows: Indices, used: Indices | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the content of columns for `restore`, as a JSON header and named arrays.

    Args:
        columns: The columns.
        rows: All steps or selected steps, in the order of their numbers (from 1) in the copy.
        used: Rows of the observations of these steps, in the order of the copy. If None, the rows that
            `used_observations` returns.
    """
    used = used_observations(columns, rows) if used is None else used
    new_obs = np.zeros(columns.obs_rows.size, np.int64)
    new_obs[used] = np.arange(1, len(used) + 1)
    header, arrays = dump_steps(columns, rows, new_obs)
    header |= {"n_obs": len(used), "obs": None, "action": None}
    if columns.obs is not None and columns.action is not None:
        header["obs"], obs = columns.obs.dump(used, "obs")
        header["action"], action = columns.action.dump(rows, "action")
        arrays |= obs | action
    header["extras"] = []
    for i, extra in enumerate(columns.extras.values()):
        part, extra_arrays = extra.dump(rows, f"extra/{i}")
        header["extras"].append(part)
        arrays |= extra_arrays
    return header, arrays


def used_observations(columns: Columns, rows: Indices, running: Iterable[Running] | None = None) -> Indices:
    """Return the rows of the observations of these steps and the pending observations, by first occurrence.

    The order does not depend on the row numbers, so equal contents give equal arrays.

    Args:
        columns: The columns.
        rows: The steps.
        running: Running episodes whose pending observations are included. If None, all running episodes.
    """
    pending = [run.pending for run in (columns.running.values() if running is None else running) if run.pending]
    observed = np.stack([columns.obs_row[rows], columns.next_row[rows]], axis=1).ravel()
    return unique_in_order(np.concatenate([observed, np.array(pending, np.int64)]))[0]


def dump_steps(columns: Columns, rows: Indices, new_obs: Indices) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and arrays of `dump` for the steps, without observations, actions and extra columns.

    `new_obs` maps rows of observations to their numbers in the copy.
    """
    new_step = np.zeros(columns.steps.size, np.int64)
    new_step[rows] = np.arange(1, len(rows) + 1)
    successor = columns.successor[rows]
    arrays: dict[str, NDArray[Any]] = {
        "reward": columns.reward[rows],
        "terminal": columns.terminal[rows],
        "obs_row": new_obs[columns.obs_row[rows]],
        "next_row": new_obs[columns.next_row[rows]],
        "successor": np.where(successor == RUNNING, RUNNING, new_step[np.maximum(successor, ENDED)]),
    }
    header: dict[str, Any] = {"n_steps": len(rows)}
    header["names"] = None if columns.names is None else sorted(columns.names)
    header["lacks_next"] = columns.lacks_next
    header["running"] = [
        [int(new_step[run.tail]), int(new_obs[run.pending]), new_step[run.waiting].tolist() if run.waiting else []]
        for run in columns.running.values()
    ]
    ids = [id_to_json(env_id) for env_id in columns.running]
    if any(env_id is None for env_id in ids):
        arrays["env_ids"] = np.fromiter(columns.running, object, len(ids))
    else:
        header["env_ids"] = ids
    return header, arrays


@contextlib.contextmanager
def header_errors() -> Iterator[None]:
    """Context manager that converts errors caused by a damaged header or array to `ValueError`.

    Raises:
        ValueError: If the header or an array is invalid.
    """
    try:
        yield
    except (TypeError, AttributeError, LookupError, OverflowError, MemoryError) as error:
        raise ValueError(f"the header is invalid: {error!r}") from error


def restore(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: Columns | None = None) -> Columns:
    """Rebuild columns from the result of `dump`, with the steps in rows 1, 2, ...

    Args:
        header: The header that `dump` returned.
        arrays: The arrays that `dump` returned.
        columns: Empty columns that are filled. If None, new columns are created.

    Raises:
        ValueError: If an array is missing or invalid.
    """
    columns = Columns() if columns is None else columns
    with header_errors():
        n_steps, n_obs = int(header["n_steps"]), int(header["n_obs"])
        if not 0 <= n_obs <= 2 * n_steps + len(header["running"]):
            raise ValueError(f"n_obs is {n_obs}, which does not match {n_steps} steps")
        steps, obs = restore_steps(header, arrays, columns, n_obs), columns.obs_rows.take(n_obs)
        if header["obs"] is not None:
            columns.set_fields(
                Field.from_spec(columns.obs_rows, header["obs"]).fill(arrays, "obs", obs),
                Field.from_spec(columns.steps, header["action"]).fill(arrays, "action", steps),
            )
        elif n_steps:
            raise ValueError("there are steps, but no observations")
        for i, part in enumerate(header["extras"]):
            columns.add_extra(part["name"]).restore(part, arrays, f"extra/{i}", steps)
    return columns


def restore_steps(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: Columns, n_obs: int
) -> Indices:
    """Add the steps from `dump_steps`, with observations in rows 1 to `n_obs`. Return the rows of the steps.

    Raises:
        ValueError: If an array is missing or invalid.
    """
    n_steps = int(header["n_steps"])
    expect(arrays, "reward", (n_steps,), np.float64)  # checked before memory for n_steps is allocated
    steps = columns.steps.take(n_steps)
    link_steps(header, arrays, columns, steps, n_obs)
    return steps


def link_steps(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: Columns, steps: Indices, n_obs: int
) -> None:
    """Fill and link the steps from `dump_steps`. `steps` are the rows that are reserved for the steps 1, 2, ...

    Raises:
        ValueError: If an array is missing or invalid.
    """
    n_steps = len(steps)
    obs_row = _row_numbers(arrays, "obs_row", n_steps, 1, n_obs)
    next_row = _row_numbers(arrays, "next_row", n_steps, 1, n_obs)
    successor = _row_numbers(arrays, "successor", n_steps, RUNNING, n_steps)
    columns.reward[steps] = expect(arrays, "reward", (n_steps,), np.float64)
    columns.terminal[steps] = expect(arrays, "terminal", (n_steps,), np.bool_)
    columns.obs_row[steps], columns.next_row[steps], columns.successor[steps] = obs_row, next_row, successor
    columns.update_inner_ends(steps)
    columns.names = None if header["names"] is None else set(header["names"])
    columns.lacks_next = bool(header["lacks_next"])
    running = [Running(int(tail), int(pending), [*map(int, waiting)]) for tail, pending, waiting in header["running"]]
    columns.running = dict(zip(_env_ids(header, arrays), running, strict=True))
    tails = sorted(run.tail for run in columns.running.values() if run.tail)
    if tails != np.sort(steps[successor == RUNNING]).tolist():
        raise ValueError("the running episodes do not match the steps")
    for run in columns.running.values():
        if not 0 <= run.pending <= n_obs or not all(1 <= row <= n_steps for row in run.waiting):
            raise ValueError("a running episode refers to a row that does not exist")


def _row_numbers(arrays: Mapping[str, NDArray[Any]], name: str, count: int, low: int, high: int) -> Indices:
    array = expect(arrays, name, (count,), np.int64)
    if count and not (low <= array.min() and array.max() <= high):
        raise ValueError(f"the array {name!r} contains row numbers out of range")
    return array


def id_to_json(env_id: Any) -> list[Any] | None:
    """Convert an environment id to JSON. If it is not an integer, a string or a tuple of these, return None."""
    if isinstance(env_id, int | np.integer) and not isinstance(env_id, bool):
        return ["one", int(env_id)]
    if isinstance(env_id, str):
        return ["one", env_id]
    if isinstance(env_id, tuple) and all(isinstance(part, int | str) for part in env_id):
        return ["tuple", list(env_id)]
    return None


def id_from_json(value: Any) -> Any:
    """Return the environment id that `id_to_json` converted."""
    kind, name = value
    return tuple(name) if kind == "tuple" else name


def _env_ids(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    if "env_ids" in header:
        return [id_from_json(value) for value in header["env_ids"]]
    return list(expect(arrays, "env_ids", (len(header["running"]),), object))


def dump_locators(columns: Columns, rows: Indices) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the content of columns like `dump`, with locators in place of the values of observations and extras.

    The files contain the values. A locator is the row of a value and its checksum.
    """
    header, arrays = dump_steps(columns, rows, np.arange(columns.obs_rows.size))
    header |= {"obs": None, "action": None, "extras": []}
    if columns.obs is not None and columns.action is not None:
        header["obs"] = columns.obs.spec()
        arrays |= _locators(columns.obs, used_observations(columns, rows), "obs")
        header["action"], action = columns.action.dump(rows, "action")
        arrays |= action
    for i, extra in enumerate(columns.extras.values()):
        index = extra.index.take(rows)
        header["extras"].append({"name": extra.name, "field": None if extra.field is None else extra.field.spec()})
        arrays[f"extra/{i}/index"] = index
        if extra.field is not None:
            arrays |= _locators(extra.field, np.unique(index[index != 0]), f"extra/{i}")
    return header, arrays


def load_locators(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: Columns) -> Columns:
    """Fill empty columns from the result of `dump_locators`. The values are in the columns' files and are not checked.

    Raises:
        ValueError: If an array is missing or invalid, or if the files are too short.
    """
    with header_errors():
        obs = None
        if header["obs"] is not None:
            obs = Field.from_spec(columns.obs_rows, header["obs"])
            _set_locators(obs, arrays, "obs")
        steps = restore_steps(header, arrays, columns, columns.obs_rows.size - 1)
        if obs is not None:
            columns.set_fields(obs, Field.from_spec(columns.steps, header["action"]).fill(arrays, "action", steps))
        elif len(steps):
            raise ValueError("there are steps, but no observations")
        for i, part in enumerate(header["extras"]):
            extra = columns.add_extra(part["name"])
            if part["field"]:
                field = Field.from_spec(extra.rows, part["field"])
                _set_locators(field, arrays, f"extra/{i}")
                extra.set_field(field)
            extra.index[steps] = _row_numbers(arrays, f"extra/{i}/index", len(steps), 0, extra.rows.size - 1)
        mark_used(columns, steps)
    return columns


def keep_locators(columns: Columns, save: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Protect the rows in the result of `dump_locators` from being overwritten, until `keep_only` omits this save.

    Raises:
        ValueError: If an array is invalid.
    """
    parts = [("obs", columns.obs, columns.obs_rows)]
    parts += [(f"extra/{i}", extra.field, extra.rows) for i, extra in enumerate(columns.extras.values())]
    for prefix, field, rows in parts:
        if field is not None and f"{prefix}/rows" in arrays:
            assert isinstance(rows, MappedRows)
            at = _rows_in(rows, arrays, prefix)
            rows.keep(save, at)
            for i, leaf in enumerate(field.leaves):
                leaf.keep(save, _locators_in(leaf, arrays, f"{prefix}/{i}", len(at)))


def mark_used(columns: Columns, rows: Indices, check: bool = False) -> None:
    """Mark exactly these steps as used. If `check` is True, compare their values with the checksums.

    Raises:
        ValueError: If `check` is True and a value does not match its checksum.
    """
    columns.steps.mark_used(rows)
    parts = [("obs", columns.obs, columns.obs_rows, used_observations(columns, rows))]
    for extra in columns.extras.values():
        index = extra.index.take(rows)
        parts.append((extra.name, extra.field, extra.rows, np.unique(index[index != 0])))
    for name, field, own, used in parts:
        own.mark_used(used)
        for leaf in field.leaves if field is not None else ():
            if check and leaf.damaged(used):
                raise ValueError(f"stored values of {name} have changed: a checksum differs")
            leaf.mark_used(used)


def _locators(field: Field, rows: Indices, prefix: str) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {f"{prefix}/rows": rows}
    for i, leaf in enumerate(field.leaves):
        arrays[f"{prefix}/{i}"] = leaf.locators(rows).view(np.uint8).reshape(len(rows), leaf.locator_dtype.itemsize)
    return arrays


def _set_locators(field: Field, arrays: Mapping[str, NDArray[Any]], prefix: str) -> None:
    assert isinstance(field.rows, MappedRows)
    field.rows.grow_to_files()
    at = _rows_in(field.rows, arrays, prefix)
    for i, leaf in enumerate(field.leaves):
        leaf.set_locators(at, _locators_in(leaf, arrays, f"{prefix}/{i}", len(at)))


def _rows_in(rows: Rows, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Indices:
    at = expect(arrays, f"{prefix}/rows", (len(arrays[f"{prefix}/rows"]),), np.int64)
    if len(at) and not (at.min() > 0 and at.max() < rows.size):
        raise ValueError(f"the array '{prefix}/rows' contains row numbers out of range: the files are too short")
    return at


def _locators_in(leaf: ArrayLeaf, arrays: Mapping[str, NDArray[Any]], name: str, count: int) -> NDArray[Any]:
    locators = expect(arrays, name, (count, leaf.locator_dtype.itemsize), np.uint8)
    return np.ascontiguousarray(locators).reshape(-1).view(leaf.locator_dtype)


class SharedRows(Rows):
    """Rows whose values are in a shared array, for instance a memory-mapped file. Here row 0 contains a value.

    The shared array is never changed: when a new row is needed, its content is copied to a new array.

    Args:
        values: The values, shape [n, ...].
    """

    def __init__(self, values: NDArray[Any]) -> None:
        super().__init__()
        self.size = len(values)
        self.released = []
        self._values = values
        self._holder: Holder | None = None
        self._store: Steps | None = None

    def values(self, holder: Holder, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Set `holder.data` to the shared array."""
        self._holder, holder.data = holder, self._values

    def set_store(self, store: Steps) -> None:
        """Set the columns whose fields are refreshed when the values are copied to a new array."""
        self._store = store

    def _resize(self, size: int) -> None:
        if self._holder is not None:
            self._holder.data = np.array(self._values, order="C")
            self._arrays.append(self._holder.data)
            self.free[:0] = [row for row in self.released if row]  # row 0 is not reused: in links it means "none"
            self.released = self.free
            self._holder = None
            if self._store is not None:
                self._store.set_fields(self._store.obs, self._store.action)
        super()._resize(size)

    def _row_bytes(self) -> int:
        return super()._row_bytes() if self._arrays else self._values[:1].nbytes


def shared_field(values: NDArray[Any]) -> Field:
    """Return a field of single arrays or numbers, shape [n, ...], in rows 0 to n - 1, without a copy."""
    rows = SharedRows(values)
    return Field(rows, 0, [ArrayLeaf(rows, values.shape[1:], values.dtype, strict=True)])
