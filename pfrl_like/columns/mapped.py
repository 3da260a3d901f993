"""Rows whose values lie in files that are mapped into memory."""

from collections.abc import Callable, Container
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pfrl_like.columns.leaves import Holder, Rows


class GrowingFile(Protocol):
    """A file of bytes."""

    @property
    def size(self) -> int:
        """Its bytes."""

    def map(self, size: int) -> NDArray[np.uint8]:
        """Its first `size` bytes as a new array over the file, which grows if it is smaller."""


class _Values(NamedTuple):
    holder: Holder
    file: GrowingFile
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape))


class MappedRows(Rows):
    """Rows with values in files, `name`-0, `name`-1, ... Other arrays, such as links and checksums, lie in memory.

    Growing maps the files anew: who holds `holder.data` elsewhere is told through `grown`.

    Args:
        open_file: Opens, or makes, the file of a name.
        name: Beginning of the files' names.
        grown: Called after the arrays of values have been replaced.

    Attributes:
        released: Rows that are not used any more, but which the state on disk may still name. `recycle` frees those
            that no save names, see `keep`.
    """

    def __init__(self, open_file: Callable[[str], GrowingFile], name: str, grown: Callable[[], None]) -> None:
        super().__init__()
        self.released = []
        self._open_file = open_file
        self._name = name
        self._grown = grown
        self._values: list[_Values] = []
        self._siblings: list[MappedRows] = []
        self._kept: dict[str, NDArray[np.bool_]] = {}  # by save: which rows it names
        self._held: list[int] = []  # rows that nothing but saves names

    def values(self, holder: Holder, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Give `holder` an array over a file, and one for the checksums of its rows.

        Raises:
            ValueError: If the values are objects.
        """
        if np.dtype(dtype) == object:
            raise ValueError("values that are no arrays cannot be kept in the files of a persistent buffer")
        holder.sums = self.array((), np.uint32)
        values = _Values(holder, self._open_file(f"{self._name}-{len(self._values)}"), tuple(shape), np.dtype(dtype))
        self._values.append(values)
        _map(values, self.size)

    def sibling(self) -> Rows:
        """Other rows with values in files."""
        rows = MappedRows(self._open_file, f"{self._name}-{len(self._siblings)}-frames", self._grown)
        self._siblings.append(rows)
        return rows

    def recycle(self) -> None:
        """Say that the state on disk names no row that was released before now."""
        self._divide(self.released)
        self.released.clear()
        for sibling in self._siblings:
            sibling.recycle()

    def keep(self, save: str, rows: NDArray[np.int64]) -> None:
        """Say that a save names these rows, so that nothing is written into them until `keep_only` leaves it out."""
        self._kept[save] = np.zeros(self.size, np.bool_)
        self._kept[save][rows] = True
        self._divide_all()

    def keep_only(self, saves: Container[str]) -> None:
        """Say which saves are still there."""
        self._kept = {save: rows for save, rows in self._kept.items() if save in saves}
        self._divide_all()
        for sibling in self._siblings:
            sibling.keep_only(saves)

    def _divide_all(self) -> None:
        unused = self._held + self.free
        self.free.clear()
        self._held.clear()
        self._divide(unused)

    def _divide(self, unused: list[int]) -> None:
        """Hold those of these rows that a save names, and free the others."""
        if self._kept:
            rows = np.array(unused, np.int64)
            kept = np.zeros(len(rows), np.bool_)
            for named in self._kept.values():
                kept |= (rows < len(named)) & named.take(rows, mode="clip")
            self._held += rows[kept].tolist()
            unused = rows[~kept].tolist()
        self.free[:0] = unused

    def adopt(self) -> None:
        """Take all rows that the files have; `settle` has to say which of them are in use."""
        lengths = [values.file.size // max(1, values.row_bytes) for values in self._values]
        self._resize(max(1, min(lengths, default=self.size)))
        for sibling in self._siblings:
            sibling.adopt()

    def settle(self, used: NDArray[np.int64]) -> None:
        """Say that these rows, and no others, are in use."""
        super().settle(used)
        self.released.clear()
        self._held.clear()
        self._divide_all()

    @property
    def row_bytes(self) -> int:
        """Bytes of files per row, those of a row of each sibling included."""
        return sum(v.row_bytes for v in self._values) + sum(sibling.row_bytes for sibling in self._siblings)

    @property
    def mapped_bytes(self) -> int:
        """Bytes of files."""
        own = self.size * sum(v.row_bytes for v in self._values)
        return own + sum(sibling.mapped_bytes for sibling in self._siblings)

    def _resize(self, size: int) -> None:
        for values in self._values:  # first, since a disk may be full
            _map(values, size)
        super()._resize(size)
        self._grown()

    def _row_bytes(self) -> int:
        return super()._row_bytes() + sum(values.row_bytes for values in self._values)


def _map(values: _Values, rows: int) -> None:
    holder, file, shape, dtype = values
    content = file.map(rows * max(1, values.row_bytes))  # a file also tells how many rows there are
    if values.row_bytes:
        holder.data = content.view(dtype).reshape(rows, *shape)
    else:
        holder.data = np.zeros((rows, *shape), dtype)
