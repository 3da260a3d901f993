"""Stores over values that lie elsewhere: in files, whose rows the state names, or in arrays that others read, too."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pfrl_like.columns.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import ArrayLeaf, Holder, Rows, expect
from pfrl_like.columns.mapped import MappedRows
from pfrl_like.columns.state import dump_steps, restore_steps, used_observations
from pfrl_like.columns.steps import Indices, Steps


def dump_places(columns: Columns, rows: Indices) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """As `dump`, with the rows and checksums of observations and of further columns instead of their values."""
    header, arrays = dump_steps(columns, rows, np.arange(columns.obs_rows.size))
    header |= {"obs": None, "action": None, "extras": []}
    if columns.obs is not None and columns.action is not None:
        header["obs"] = columns.obs.spec()
        arrays |= _places(columns.obs, used_observations(columns, rows), "obs")
        header["action"], action = columns.action.dump(rows, "action")
        arrays |= action
    for i, extra in enumerate(columns.extras.values()):
        index = extra.index.take(rows)
        header["extras"].append({"name": extra.name, "field": None if extra.field is None else extra.field.spec()})
        arrays[f"extra/{i}/index"] = index
        if extra.field is not None:
            arrays |= _places(extra.field, np.unique(index[index != 0]), f"extra/{i}")
    return header, arrays


def restore_places(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], columns: Columns) -> Columns:
    """Fill an empty store over the files with what `dump_places` gave; nothing looks at the values yet.

    Raises:
        ValueError: If an array is missing or does not fit, or the files are too short.
    """
    try:
        _restore(header, dict(arrays), columns)
    except (TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(f"the header does not fit: {error!r}") from error
    return columns


def _restore(header: Mapping[str, Any], arrays: dict[str, NDArray[Any]], columns: Columns) -> None:
    obs = None
    if header["obs"] is not None:
        obs = Field.from_spec(columns.obs_rows, header["obs"])
        _take_places(columns.obs_rows, obs, arrays, "obs")
    steps = restore_steps(header, arrays, columns, columns.obs_rows.size - 1)
    if obs is not None:
        columns.set_fields(obs, Field.restore(columns.steps, header["action"], arrays, "action", steps))
    elif len(steps):
        raise ValueError("there are steps, but no observations")
    for i, part in enumerate(header["extras"]):
        extra = columns.add_extra(part["name"])
        if part["field"]:
            extra.set_field(Field.from_spec(extra.rows, part["field"]))
            assert extra.field is not None
            _take_places(extra.rows, extra.field, arrays, f"extra/{i}")
            extra.mark_missing()
        index = expect(arrays, f"extra/{i}/index", (len(steps),), np.int64)
        if len(index) and not (index.min() >= 0 and index.max() < extra.rows.size):
            raise ValueError(f"the array 'extra/{i}/index' holds row numbers out of range")
        extra.index[steps] = index
    settle(columns, steps)


def keep_places(columns: Columns, save: str, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Let nothing be written into the rows that `dump_places` has named, until `keep_only` leaves out this save.

    Raises:
        ValueError: If an array does not fit.
    """
    parts = [("obs", columns.obs, columns.obs_rows)]
    parts += [(f"extra/{i}", extra.field, extra.rows) for i, extra in enumerate(columns.extras.values())]
    for prefix, field, rows in parts:
        if field is not None and f"{prefix}/rows" in arrays:
            assert isinstance(rows, MappedRows)
            at = _rows_in(rows, arrays, prefix)
            rows.keep(save, at)
            for i, leaf in enumerate(field.leaves):
                leaf.keep(save, _places_in(leaf, arrays, f"{prefix}/{i}", len(at)))


def settle(columns: Columns, rows: Indices, check: bool = False) -> None:
    """Say that these steps, and no others, are held.

    Raises:
        ValueError: If, with `check`, one of their values is not what was stored.
    """
    columns.steps.settle(rows)
    parts = [("obs", columns.obs, columns.obs_rows, used_observations(columns, rows))]
    for extra in columns.extras.values():
        index = extra.index.take(rows)
        parts.append((extra.name, extra.field, extra.rows, np.unique(index[index != 0])))
    for name, field, own, used in parts:
        own.settle(used)
        for leaf in field.leaves if field is not None else ():
            if check and leaf.damaged(used):
                raise ValueError(f"values of {name} are not those that were stored")
            leaf.settle(used)


def _places(field: Field, rows: Indices, prefix: str) -> dict[str, NDArray[Any]]:
    places = {f"{prefix}/{i}": _as_bytes(leaf.places(rows)) for i, leaf in enumerate(field.leaves)}
    return {f"{prefix}/rows": rows, **places}


def _take_places(rows: Rows, field: Field, arrays: dict[str, NDArray[Any]], prefix: str) -> None:
    assert isinstance(rows, MappedRows)
    rows.adopt()
    at = _rows_in(rows, arrays, prefix)
    for i, leaf in enumerate(field.leaves):
        leaf.take_places(at, _places_in(leaf, arrays, f"{prefix}/{i}", len(at)))


def _rows_in(rows: Rows, arrays: Mapping[str, NDArray[Any]], prefix: str) -> Indices:
    at = expect(arrays, f"{prefix}/rows", (len(arrays[f"{prefix}/rows"]),), np.int64)
    if len(at) and not (at.min() > 0 and at.max() < rows.size):
        raise ValueError(f"the array '{prefix}/rows' holds row numbers out of range: the files are too short")
    return at


def _places_in(leaf: ArrayLeaf, arrays: Mapping[str, NDArray[Any]], name: str, count: int) -> NDArray[Any]:
    places = expect(arrays, name, (count, leaf.place_dtype.itemsize), np.uint8)
    return np.ascontiguousarray(places).reshape(-1).view(leaf.place_dtype)


def _as_bytes(places: NDArray[Any]) -> NDArray[np.uint8]:
    return places.view(np.uint8).reshape(len(places), places.dtype.itemsize)


class SharedRows(Rows):
    """Rows whose values lie in an array of somebody else's, a mapped file for instance, from row 0 on.

    Nothing is written there: the first row that is taken has everything copied into an array of their own.

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
        """Let `holder` have the array."""
        self._holder, holder.data = holder, self._values

    def serve(self, store: Steps) -> None:
        """Say which store has to be told when the values move to an array of their own."""
        self._store = store

    def _resize(self, size: int) -> None:
        if self._holder is not None:
            own = np.zeros(self._values.shape, self._values.dtype)
            own[:] = self._values
            self._holder.data = own
            self._arrays.append(own)
            self.free[:0] = [row for row in self.released if row]  # row 0 stands for none where a next row is awaited
            self.released = self.free
            self._holder = None
            if self._store is not None:
                self._store.set_fields(self._store.obs, self._store.action)
        super()._resize(size)

    def _row_bytes(self) -> int:
        return super()._row_bytes() if self._arrays else self._values[:1].nbytes


def shared_field(values: NDArray[Any]) -> Field:
    """A field of plain values, shape [n, ...], that are in rows 0 to n - 1 without having been copied."""
    rows = SharedRows(values)
    return Field(rows, 0, [ArrayLeaf(rows, values.shape[1:], values.dtype, strict=True)])
