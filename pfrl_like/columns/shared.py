"""Rows over arrays that others read, too."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pfrl_like.columns.field import Field
from pfrl_like.columns.leaves import ArrayLeaf
from pfrl_like.columns.rows import Holder, Rows
from pfrl_like.columns.steps import Steps


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
