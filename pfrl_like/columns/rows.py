"""Row numbers, and the arrays that have a row for each of them."""

from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

_CHUNK_BYTES = 1 << 16
_LARGEST_CHUNK = 1 << 16  # rows
_LARGE_ROW_BYTES = 1 << 10


class Holder(Protocol):
    """What has values in a row each."""

    data: NDArray[Any]
    sums: NDArray[np.uint32] | None


class Rows:
    """Arrays of one common length that grows a chunk at a time, and the list of their unused rows.

    Growing resizes the arrays in place (large ones are remapped rather than copied), so other objects may keep them,
    but must not keep views of them. Row 0 is never handed out: links use it for "none".

    Attributes:
        free: Unused row numbers; take one with `free.pop()` after `reserve(1)`.
        released: Where row numbers go that are not used any more; here the same list, so they are taken again at once.
        size: Length of the arrays.
    """

    def __init__(self) -> None:
        self.free: list[int] = []
        self.released = self.free
        self.size = 1
        self._arrays: list[NDArray[Any]] = []

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Add an array of zeros (of None, for objects) whose rows have this shape."""
        array = np.zeros((self.size, *shape), dtype)
        if array.dtype == object:
            array[...] = None
        self._arrays.append(array)
        return array

    def values(self, holder: Holder, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Give `holder.data` an array for values, as `array`."""
        holder.data = self.array(shape, dtype)

    def sibling(self) -> "Rows":
        """Other rows, whose values lie where those of these lie."""
        return Rows()

    def reserve(self, count: int) -> None:
        """Make sure that at least `count` rows are free."""
        while len(self.free) < count:
            old = self.size
            self._resize(old + max(self._chunk(), count - len(self.free)))
            self.free[:0] = range(self.size - 1, old - 1, -1)

    def _resize(self, size: int) -> None:
        old, self.size = self.size, size
        for array in self._arrays:
            array.resize((size, *array.shape[1:]), refcheck=False)
            if array.dtype == object:
                array[old:] = None

    def take(self, count: int) -> NDArray[np.int64]:
        """Take `count` rows at once."""
        if not count:
            return np.empty(0, np.int64)
        self.reserve(count)
        taken = self.free[-count:][::-1]
        del self.free[-count:]
        return np.array(taken, np.int64)

    def settle(self, used: NDArray[np.int64]) -> None:
        """Say that these rows, and no others, are in use."""
        unused = np.ones(self.size, np.bool_)
        unused[0] = False
        unused[used] = False
        self.free[:] = np.flatnonzero(unused)[::-1].tolist()

    def _chunk(self) -> int:
        # Growing may copy, so small rows grow by an eighth; of large ones, such as images, less should lie unused.
        row_bytes = self._row_bytes()
        part = self.size // (128 if row_bytes >= _LARGE_ROW_BYTES else 8)
        return min(max(part, _CHUNK_BYTES // max(row_bytes, 1), 4), _LARGEST_CHUNK)

    def _row_bytes(self) -> int:
        return sum(array.itemsize * int(np.prod(array.shape[1:])) for array in self._arrays)

    @property
    def nbytes(self) -> int:
        """Bytes held by the arrays, unused rows included."""
        return sum(array.nbytes for array in self._arrays)


def first_seen(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The different ones among some numbers in the order in which they come up, and where among them each one is.

    Args:
        numbers: Of any shape.

    Returns:
        The different ones, [n]; for each number its place among them, in the shape of `numbers`.
    """
    different, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return different[order], rank[place.reshape(numbers.shape)]
