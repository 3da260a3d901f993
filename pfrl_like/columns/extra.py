"""A further column of a step, which may have no value (None) in some rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import Job, expect
from pfrl_like.columns.rows import Rows


class Extra:
    """Values with rows of their own, so that what only some steps hold takes no room in the others.

    Attributes:
        index: For each step the row of its value, 0 where it has none.
        field: The values; None until the first one comes. Row 0 holds what stands for a missing value: zeros, or
            True in an action mask.
    """

    def __init__(self, steps: Rows, name: str, rows: Rows | None = None) -> None:
        self.name = name
        self.index: NDArray[np.int64] = steps.array((), np.int64)
        self.rows = Rows() if rows is None else rows
        self.field: Field | None = None

    def check(self, value: Any) -> Any:
        """The value's leaves, or the value itself while there is no field to check it against.

        Raises:
            ValueError: If its structure, a shape or a dtype is another than that of the first value.
        """
        return value if value is None or self.field is None else self.field.check(value, self.name)

    def check_many(self, values: Sequence[Any]) -> list[Any]:
        """The same for values of several steps."""
        held = [value for value in values if value is not None]
        if self.field is None and held:
            first = Field.like(Rows(), held[0], strict=False)
            for value in held:
                first.check(value, self.name)
            self.set_field(Field.like(self.rows, held[0], strict=False))
        return [self.check(value) for value in values]

    def put(self, step: int, checked: Any) -> None:
        """Store a checked value for a step, or None."""
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

    def replace(self, step: int, checked: Any) -> None:
        """Store a checked value, or None, in the place of what a step holds."""
        self.drop(step)
        self.put(step, checked)

    def drop(self, step: int) -> None:
        """Free what a step holds."""
        row = self.index.item(step)
        if row:
            self.rows.released.append(row)
            assert self.field is not None
            self.field.drop(row)

    def present(self, steps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of these steps hold a value."""
        held: NDArray[np.bool_] = self.index.take(steps) != 0
        return held

    def jobs(self, steps: NDArray[np.int64]) -> list[Job]:
        """What to gather for these steps; nothing if no value has come yet."""
        return [] if self.field is None else self.field.jobs(self.index.take(steps))

    def values(self, steps: NDArray[np.int64]) -> list[Any]:
        """The values of these steps, None where there is none."""
        if self.field is None:
            return [None] * len(steps)
        at = self.index.take(steps)
        return [value if row else None for value, row in zip(self.field.values(at), at.tolist(), strict=True)]

    def dump(self, steps: NDArray[np.int64], prefix: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What `restore` needs for these steps: a JSON header and named arrays."""
        at = self.index.take(steps)
        held = at[at != 0]
        index = np.zeros(len(steps), np.int64)
        index[at != 0] = np.arange(1, len(held) + 1)
        header, arrays = ({}, {}) if self.field is None else self.field.dump(held, prefix)
        return {"name": self.name, "field": header}, {f"{prefix}/index": index, **arrays}

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str, at: NDArray[np.int64]
    ) -> None:
        """Fill the steps `at` from what `dump` gave.

        Raises:
            ValueError: If an array is missing or does not fit.
        """
        index = expect(arrays, f"{prefix}/index", (len(at),), np.int64)
        count = int((index != 0).sum())
        if not np.array_equal(index[index != 0], np.arange(1, count + 1)) or (count and not header["field"]):
            raise ValueError(f"the array '{prefix}/index' does not fit")
        rows = np.concatenate([[0], self.rows.take(count)])
        self.index[at] = rows[index]
        if header["field"]:
            self.set_field(Field.restore(self.rows, header["field"], arrays, prefix, rows[1:]))

    def add(
        self, arrays: Mapping[str, NDArray[Any]], prefix: str, which: NDArray[np.int64], at: NDArray[np.int64]
    ) -> None:
        """Fill the steps `at` with the values of some of those that `dump` was asked for.

        Raises:
            ValueError: If an array is missing or does not fit.
        """
        index = expect(arrays, f"{prefix}/index", (len(arrays[f"{prefix}/index"]),), np.int64)[which]
        held = index[index != 0]
        if len(held) and self.field is None:
            raise ValueError(f"{self.name} has values, but nothing says of what form")
        self.index[at] = 0
        if self.field is not None and len(held):  # else the first value may have come later than the arrays
            self.index[at[index != 0]] = self.field.add(arrays, prefix, held - 1)

    def set_field(self, field: Field) -> None:
        """Say what the values are made of."""
        self.field = field
        self.mark_missing()

    def mark_missing(self) -> None:
        """Fill the row that stands for a missing value."""
        plain = None if self.field is None else self.field.plain
        if self.name.endswith("action_mask") and plain is not None:
            plain[0] = 1

    @property
    def nbytes(self) -> int:
        """Bytes held beside the arrays of the steps."""
        return self.rows.nbytes
