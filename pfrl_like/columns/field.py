"""Columns of nested values: `Field` has a column for each leaf; `Extra` also allows steps without a value."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.columns.frames import FrameLeaf, frame_leaf
from pfrl_like.columns.leaves import NUMBERS, ArrayLeaf, Job, ObjectLeaf, Rows, as_array, expect, to_tensors
from pfrl_like.columns.structure import (
    ReadOnlyDict,
    Structure,
    flatten,
    from_json,
    map_structure,
    structure_of,
    to_json,
)

_MOST_DIMENSIONS, _LARGEST = 64, 1 << 48  # limits of a loaded shape; NumPy has the same limit of dimensions
_DEEPEST = 1 << 12  # maximum number of frames in a stack


class Field:
    """Column of nested values with the same structure, stored as one column per leaf.

    `check` returns a value as the list of its leaves, and `put` stores such a list.

    Attributes:
        structure: The nested structure.
        leaves: The column of each leaf, in the order of the structure.
    """

    def __init__(self, rows: Rows, structure: Structure, leaves: Sequence[ArrayLeaf]) -> None:
        self.rows = rows
        self.structure = structure
        self.leaves = list(leaves)

    @property
    def plain(self) -> NDArray[Any] | None:
        """The array of values if each value is a single array or number, else None."""
        single = self.structure == 0 and type(self.leaves[0]) is ArrayLeaf
        return self.leaves[0].data if single else None

    @classmethod
    def like(cls, rows: Rows, value: Any, *, strict: bool, frames: bool = False) -> "Field":
        """Return a field for values with the structure, shapes and dtypes of `value`.

        Args:
            rows: The rows of the field.
            value: The first value.
            strict: True to reject later arrays with a different dtype that cannot be cast without loss.
            frames: True to detect stacked frames, and to store each frame once.
        """
        structure, values = structure_of(value)
        return cls(rows, structure, [_leaf_like(rows, leaf, strict, frames) for leaf in values])

    def check(self, value: Any, name: str) -> list[Any]:
        """Check a value and return its leaves.

        Raises:
            ValueError: If the structure, a shape or a dtype differs from the first value.
        """
        parts = flatten(value, self.structure, name)
        return [leaf.check(part, path) for leaf, (path, part) in zip(self.leaves, parts, strict=True)]

    def check_many(self, values: Any, count: int, name: str) -> list[Any]:
        """Check `count` values and return their stacked leaves.

        The values are a list, a tuple, or one nested value whose leaves are stacked.
        """
        if self.structure == 0:
            parts = [(name, list(values) if isinstance(values, tuple) else values)]
        elif _is_sequence_of(values, Mapping if isinstance(self.structure, dict) else tuple, count):
            rows = [flatten(value, self.structure, f"{name}[{i}]") for i, value in enumerate(values)]
            parts = [(name, [part for _, part in column]) for column in zip(*rows, strict=True)]
        else:
            parts = list(flatten(values, self.structure, name))
        return [leaf.check_many(part, count, path) for leaf, (path, part) in zip(self.leaves, parts, strict=True)]

    def put(self, row: int, leaves: list[Any], previous_row: int = 0) -> None:
        """Store checked leaves. `previous_row` is the row of the previous step of the episode, or 0."""
        for leaf, value in zip(self.leaves, leaves, strict=True):
            leaf.put(row, value, previous_row)

    def put_many(self, rows: NDArray[np.int64], leaves: list[Any], previous_rows: NDArray[np.int64]) -> None:
        """Store checked, stacked leaves. `previous_rows` are the rows of the previous steps, as in `put`."""
        for leaf, values in zip(self.leaves, leaves, strict=True):
            leaf.put_many(rows, values, previous_rows)

    def same(self, row: int, leaves: list[Any]) -> bool:
        """Return True if a row contains exactly these leaves."""
        return all(leaf.same(row, value) for leaf, value in zip(self.leaves, leaves, strict=True))

    def same_many(self, rows: NDArray[np.int64], leaves: list[Any]) -> NDArray[np.bool_]:
        """Return an array [n] that is True where a row contains exactly its leaves."""
        same = np.ones(len(rows), np.bool_)
        for leaf, values in zip(self.leaves, leaves, strict=True):
            same &= leaf.same_many(rows, values)
        return same

    def drop(self, row: int) -> None:
        """Mark a row as unused."""
        for leaf in self.leaves:
            leaf.drop(row)

    def mark_last(self, row: int) -> None:
        """Mark a row as the last row of its episode."""
        for leaf in self.leaves:
            leaf.mark_last(row)

    def jobs(self, rows: NDArray[np.int64]) -> list[Job]:
        """Return the gather jobs for these rows, one per leaf; see `to_tensors`."""
        return [leaf.job(rows) for leaf in self.leaves]

    def build(self, gathered: Sequence[Any]) -> Any:
        """Return the nested value of the leaves that `to_tensors` has gathered for `jobs`."""
        values = [leaf.finish(x) for leaf, x in zip(self.leaves, gathered, strict=True)]
        return map_structure(values.__getitem__, self.structure)

    def values(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return copies of the nested values in these rows. Arrays and dicts in the copies are read-only."""
        columns = [leaf.finish(x) for leaf, x in zip(self.leaves, to_tensors(self.jobs(rows), "cpu"), strict=True)]
        lists = [_read_only(column) if isinstance(column, torch.Tensor) else column for column in columns]
        if self.structure == 0:
            return lists[0]
        return [map_structure(leaves.__getitem__, self.structure, ReadOnlyDict) for leaves in zip(*lists, strict=True)]

    def stacked(self, rows: NDArray[np.int64]) -> Any:
        """Return the values of these rows as one nest of stacked arrays [N, ...] or lists of objects."""
        return map_structure(lambda i: self._stacked(i, rows), self.structure)

    def part(self, key: Any, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the arrays under one key in these rows, stacked [N, ...]; the values must be dicts."""
        assert isinstance(self.structure, dict)
        array: NDArray[Any] = self._stacked(self.structure[key], rows)
        return array

    def _stacked(self, i: int, rows: NDArray[np.int64]) -> Any:
        leaf = self.leaves[i]
        gathered = leaf.finish(to_tensors([leaf.job(rows)], "cpu")[0])
        return gathered.numpy() if isinstance(gathered, torch.Tensor) else gathered

    def dump(self, rows: NDArray[np.int64], prefix: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the values of these rows for `from_spec` and `fill`, as a JSON header and named arrays."""
        arrays: dict[str, NDArray[Any]] = {}
        for i, leaf in enumerate(self.leaves):
            arrays |= {f"{prefix}/{i}/{name}": array for name, array in leaf.dump(rows).items()}
        return self.spec(), arrays

    def spec(self) -> dict[str, Any]:
        """Return a description of this field without its values, as JSON for `from_spec`."""
        return {"structure": to_json(self.structure), "leaves": [leaf.spec() for leaf in self.leaves]}

    @classmethod
    def from_spec(cls, rows: Rows, spec: Mapping[str, Any]) -> "Field":
        """Return a field built from the result of `spec`, without values.

        Raises:
            ValueError: If the structure does not number the leaves in order.
        """
        structure, leaves = from_json(spec["structure"]), [_leaf_from_spec(rows, leaf) for leaf in spec["leaves"]]
        numbers: list[int] = []
        map_structure(numbers.append, structure)
        if numbers != [*range(len(leaves))]:
            raise ValueError(f"the structure has the leaves {numbers}, expected {[*range(len(leaves))]}")
        return cls(rows, structure, leaves)

    def fill(self, arrays: Mapping[str, NDArray[Any]], prefix: str, at: NDArray[np.int64]) -> "Field":
        """Fill the rows `at` with the values that a field with the same `spec` has dumped. Return this field.

        Raises:
            ValueError: If an array is missing or has the wrong shape or dtype.
        """
        for i, leaf in enumerate(self.leaves):
            leaf.restore(at, _under(arrays, f"{prefix}/{i}/"))
        return self

    def add(self, arrays: Mapping[str, NDArray[Any]], prefix: str, which: NDArray[np.int64]) -> NDArray[np.int64]:
        """Store the values with the positions `which` that a field with the same `spec` has dumped. Return their rows.

        Raises:
            ValueError: If an array is missing or has the wrong shape or dtype.
        """
        parts = [leaf.select(_under(arrays, f"{prefix}/{i}/"), which) for i, leaf in enumerate(self.leaves)]
        rows = self.rows.take(len(which))
        for leaf, part in zip(self.leaves, parts, strict=True):
            leaf.restore(rows, part)
        return rows

    @property
    def nbytes(self) -> int:
        """Number of bytes in addition to the arrays of `rows`."""
        return sum(leaf.nbytes for leaf in self.leaves)


def _read_only(column: torch.Tensor) -> list[Any]:
    array = column.numpy()
    array.flags.writeable = False
    return list(array)


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _is_sequence_of(values: Any, nest: type, count: int) -> bool:
    return isinstance(values, list | tuple) and len(values) == count > 0 and isinstance(values[0], nest)


def _leaf_like(rows: Rows, value: Any, strict: bool, frames: bool) -> ArrayLeaf:
    if frames and (leaf := frame_leaf(rows, value)) is not None:
        return leaf
    array = as_array(value)
    return ObjectLeaf(rows) if array is None else ArrayLeaf(rows, array.shape, array.dtype, strict)


def _leaf_from_spec(rows: Rows, spec: Mapping[str, Any]) -> ArrayLeaf:
    if spec["kind"] == "object":
        return ObjectLeaf(rows)
    shape, dtype = _shape_of(spec["shape"]), np.dtype(spec["dtype"])
    if dtype.kind not in NUMBERS:
        raise ValueError(f"a column has the dtype {dtype}, expected numbers")
    if spec["kind"] == "array":
        return ArrayLeaf(rows, shape, dtype, bool(spec["strict"]))
    if spec["kind"] == "frames":
        frame_shape, depth, axis = _shape_of(spec["frame_shape"]), int(spec["depth"]), int(spec["axis"])
        if not (0 < depth <= _DEEPEST and 0 <= axis <= len(frame_shape)):
            raise ValueError(f"a column has stacks of {depth} frames along axis {axis}")
        return FrameLeaf(rows, shape, dtype, frame_shape, depth, axis)
    raise ValueError(f"unknown kind of column {spec['kind']!r:.80}")


def _shape_of(sizes: Any) -> tuple[int, ...]:
    if len(sizes) > _MOST_DIMENSIONS or not all(type(size) is int and 0 <= size < _LARGEST for size in sizes):
        raise ValueError(f"a column has the shape {sizes!r:.80}")
    return tuple(sizes)


class Extra:
    """Column of values that only some steps have. The values have their own rows, so missing values use no memory.

    Attributes:
        index: For each step the row of its value; 0 if the step has no value.
        field: The values; None before the first value. Row 0 contains the replacement of a missing value: zeros, or
            True in an action mask.
    """

    def __init__(self, steps: Rows, name: str, rows: Rows | None = None) -> None:
        self.name = name
        self.index: NDArray[np.int64] = steps.array((), np.int64)
        self.rows = Rows() if rows is None else rows
        self.field: Field | None = None

    def check(self, value: Any) -> Any:
        """Check a value and return its leaves. If no value is stored yet, return the value unchanged.

        Raises:
            ValueError: If the structure, a shape or a dtype differs from the first value.
        """
        return value if value is None or self.field is None else self.field.check(value, self.name)

    def check_many(self, values: Sequence[Any]) -> list[Any]:
        """Check the values of several steps and return their leaves; None stays None."""
        held = [value for value in values if value is not None]
        if self.field is None and held:
            first = Field.like(Rows(), held[0], strict=False)
            for value in held:
                first.check(value, self.name)
            self.set_field(Field.like(self.rows, held[0], strict=False))
        return [self.check(value) for value in values]

    def check_column(self, values: NDArray[Any]) -> list[Any] | tuple[Any, ...]:
        """Check an array of the values of N steps for `put_column`. In an array of objects, None means no value.

        Raises:
            ValueError: If a shape or dtype differs from the first value.
        """
        if values.dtype == object:
            return self.check_many(values.tolist())
        if self.field is None:
            self.set_field(Field.like(self.rows, values[0], strict=False))
        assert self.field is not None
        return tuple(self.field.check_many(values, len(values), self.name))

    def put_column(self, steps: NDArray[np.int64], checked: list[Any] | tuple[Any, ...]) -> None:
        """Store the result of `check_column` for these steps, [N]."""
        if isinstance(checked, list):
            for step, value in zip(steps.tolist(), checked, strict=True):
                self.put(step, value)
            return
        assert self.field is not None
        rows = self.rows.take(len(steps))
        self.field.put_many(rows, list(checked), np.zeros_like(rows))
        self.index[steps] = rows

    def put(self, step: int, checked: Any) -> None:
        """Store a checked value for a step. If `checked` is None, the step has no value."""
        if checked is None:
            self.index[step] = 0
            return
        if self.field is None:
            self.set_field(Field.like(self.rows, checked, strict=False))
            checked = self.check(checked)
        assert self.field is not None
        self.rows.reserve(1)
        row = self.rows.free.pop()
        self.field.put(row, checked)
        self.index[step] = row

    def drop(self, step: int) -> None:
        """Free the value of a step."""
        row = self.index.item(step)
        if row:
            self.rows.released.append(row)
            assert self.field is not None
            self.field.drop(row)

    def present(self, steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return an array [n] that is True where a step has a value."""
        held: NDArray[np.bool_] = self.index.take(steps) != 0
        return held

    def jobs(self, steps: NDArray[np.int64]) -> list[Job]:
        """Return the gather jobs for these steps; [] if no value was ever stored."""
        return [] if self.field is None else self.field.jobs(self.index.take(steps))

    def values(self, steps: NDArray[np.int64]) -> list[Any]:
        """Return the values of these steps; None for a step without a value."""
        if self.field is None:
            return [None] * len(steps)
        at = self.index.take(steps)
        return [value if row else None for value, row in zip(self.field.values(at), at.tolist(), strict=True)]

    def dump(self, steps: NDArray[np.int64], prefix: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the values of these steps for `restore`, as a JSON header and named arrays."""
        at = self.index.take(steps)
        held = at[at != 0]
        index = np.zeros(len(steps), np.int64)
        index[at != 0] = np.arange(1, len(held) + 1)
        header, arrays = ({}, {}) if self.field is None else self.field.dump(held, prefix)
        return {"name": self.name, "field": header}, {f"{prefix}/index": index, **arrays}

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str, at: NDArray[np.int64]
    ) -> None:
        """Fill the steps `at` from the result of `dump`.

        Raises:
            ValueError: If an array is missing or has the wrong shape or dtype.
        """
        index = expect(arrays, f"{prefix}/index", (len(at),), np.int64)
        count = int((index != 0).sum())
        if not np.array_equal(index[index != 0], np.arange(1, count + 1)) or (count and not header["field"]):
            raise ValueError(f"the array '{prefix}/index' does not match the values")
        rows = np.concatenate([[0], self.rows.take(count)])
        self.index[at] = rows[index]
        if header["field"]:
            self.set_field(Field.from_spec(self.rows, header["field"]).fill(arrays, prefix, rows[1:]))

    def add(
        self, arrays: Mapping[str, NDArray[Any]], prefix: str, which: NDArray[np.int64], at: NDArray[np.int64]
    ) -> None:
        """Fill the steps `at` with the values of selected steps in the result of `dump`.

        Raises:
            ValueError: If an array is missing or has the wrong shape or dtype.
        """
        index = expect(arrays, f"{prefix}/index", (len(arrays[f"{prefix}/index"]),), np.int64)[which]
        held = index[index != 0]
        if len(held) and self.field is None:
            raise ValueError(f"{self.name} has values, but their structure is unknown")
        self.index[at] = 0
        if self.field is not None and len(held):  # without a field, the arrays are older than the first value
            self.index[at[index != 0]] = self.field.add(arrays, prefix, held - 1)

    def set_field(self, field: Field) -> None:
        """Set the field of the values, and fill row 0, the replacement of a missing value."""
        self.field = field
        if self.name.endswith("action_mask") and field.plain is not None:
            field.plain[0] = 1

    @property
    def nbytes(self) -> int:
        """Number of bytes in addition to the arrays of the steps."""
        return self.rows.nbytes
