"""Columns of single values, their row numbers, and the way from rows to tensors on a device."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

_CHUNK_BYTES = 1 << 16
_LARGEST_CHUNK = 1 << 16  # rows
_LARGE_ROW_BYTES = 1 << 10
#: What a leaf hands out for some rows: an array and the rows to take of it, or a finished list of objects.
Job = tuple[NDArray[Any], NDArray[np.int64]] | list[Any]
_SUM = struct.Struct("<I")
#: Kinds of dtypes that tensors take.
NUMBERS = "biufc"
_NO_TORCH_DTYPES = (np.dtype(np.longdouble), np.dtype(np.clongdouble))
_ALIGNMENT = 64


class Holder(Protocol):
    """What has values in a row each."""

    data: NDArray[Any]
    sums: Any


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


def as_array(value: Any) -> NDArray[Any] | None:
    """The value as an array of numbers or bools, None if it is not one (objects, strings, ragged lists)."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return None
    if array.dtype.kind not in NUMBERS or array.dtype in _NO_TORCH_DTYPES:
        return None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def describe(value: Any) -> str:
    """What a refused value is, for an error message."""
    array = as_array(value)
    kind = type(value).__name__
    if array is None:
        return f"{kind} of {value.dtype}" if hasattr(value, "dtype") else kind
    return f"{kind} of shape {array.shape}, {array.dtype}"


class ArrayLeaf:
    """Values of one shape and dtype, one row each.

    Args:
        rows: Whose rows.
        shape: Shape of one value.
        dtype: Its dtype.
        strict: Refuse arrays of another dtype that cannot be cast without loss.

    Attributes:
        data: The values.
        sums: Checksum of each row of `data`, where these are kept in files; else None.
    """

    data: NDArray[Any]
    sums: Any = None

    def __init__(self, rows: Rows, shape: tuple[int, ...], dtype: DTypeLike, strict: bool) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.strict = strict
        rows.values(self, self.shape, self.dtype)

    def check(self, value: Any, name: str) -> NDArray[Any]:
        """The value as an array of the column's shape and dtype.

        Raises:
            ValueError: If it has another shape, or another dtype that cannot be cast without loss of kind.
        """
        return self._check(value, name, self.shape)

    def check_many(self, values: Any, count: int, name: str) -> NDArray[Any]:
        """The same for `count` values, stacked or in a sequence; the result is stacked."""
        return self._check(values, name, (count, *self.shape))

    def _check(self, value: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = as_array(value)
        if array is not None and array.shape == shape:
            if array.dtype == self.dtype:
                return array
            # Python numbers and lists have no dtype of their own; whoever passes arrays of observations has chosen one,
            # which is cast only where nothing can be lost.
            plain = not isinstance(value, np.ndarray | np.generic) and not _holds_arrays(value)
            casting: Any = "same_kind" if plain or not self.strict else "safe"
            if np.can_cast(array.dtype, self.dtype, casting):
                cast = array.astype(self.dtype)
                if self.dtype.kind not in "iu" or bool((cast == array).all()):
                    return cast
        expected = f"an array of shape {shape}, {self.dtype}" if shape else f"a number, {self.dtype}"
        is_cast = self.strict and array is not None and array.shape == shape
        told = "; an environment's reset and step have to give the same dtype: cast in it, or wrap it"
        hint = told if is_cast else ""
        raise ValueError(f"{name}: got {describe(value)}, expected {expected} as in the first step{hint}")

    def put(self, row: int, value: NDArray[Any], like: int) -> None:
        """Store a checked value; `like` is the row of the value before it in its episode (0: there is none)."""
        self.data[row] = value
        if self.sums is not None:
            self.seal(row)

    def put_many(self, rows: NDArray[np.int64], values: NDArray[Any], like: NDArray[np.int64]) -> None:
        """Store checked, stacked values."""
        self.data[rows] = values
        self.seal_many(rows)

    def same(self, row: int, value: NDArray[Any]) -> bool:
        """Whether a row holds exactly this value, bit for bit."""
        return bool(self.data[row].tobytes() == value.tobytes())

    def same_many(self, rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
        """The same for each of several rows."""
        stored = self.data.take(rows, 0)
        if not stored.size:
            return np.ones(len(rows), np.bool_)
        left, right = (np.ascontiguousarray(side).reshape(len(rows), -1).view(np.uint8) for side in (stored, values))
        equal: NDArray[np.bool_] = (left == right).all(axis=1)
        return equal

    def drop(self, row: int) -> None:
        """Say that a row is unused from now on."""

    def forget(self, row: int) -> None:
        """Say that no value follows this row's in its episode."""

    # What a store in files asks for

    def seal(self, row: int) -> None:
        """Note the checksum of a row of `data`, which has just been filled."""
        self.sums[row] = zlib.crc32(self.data[row : row + 1].data)

    def seal_many(self, rows: NDArray[np.int64]) -> None:
        """The same for several rows; nothing where no checksums are kept."""
        if self.sums is not None:
            for row in rows.tolist():
                self.seal(row)

    @property
    def place_dtype(self) -> np.dtype[Any]:
        """What has to be known of a row to find its value again and to know it for the same: here its checksum."""
        return np.dtype([("sum", "<u4")])

    def place(self, row: int) -> bytes:
        """`places` of one row, as bytes."""
        return _SUM.pack(self.sums.item(row))

    def places(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """What `take_places` needs to find the values of these rows in the files again, shape [n]."""
        places = np.empty(len(rows), self.place_dtype)
        places["sum"] = self.sums.take(rows)
        return places

    def take_places(self, rows: NDArray[np.int64], places: NDArray[Any]) -> None:
        """Say that the values of these rows lie in the files already.

        Raises:
            ValueError: If they cannot.
        """
        self.sums[rows] = places["sum"]

    def keep(self, save: str, places: NDArray[Any]) -> None:
        """Say that a save needs what lies in these places; rows of this leaf are kept by whose rows they are."""

    def damaged(self, rows: NDArray[np.int64]) -> bool:
        """Whether the value of one of these rows is not what was stored."""
        return any(zlib.crc32(self.data[row : row + 1].data) != self.sums.item(row) for row in rows.tolist())

    def settle(self, rows: NDArray[np.int64]) -> None:
        """Say that these rows, and no others, are in use."""

    def job(self, rows: NDArray[np.int64]) -> Job:
        """What to gather for these rows."""
        return self.data, rows

    def finish(self, gathered: Any) -> Any:
        """Turn what was gathered into values."""
        return gathered

    def spec(self) -> dict[str, Any]:
        """How to make this leaf again, in JSON."""
        return {"kind": "array", "shape": list(self.shape), "dtype": self.dtype.str, "strict": self.strict}

    def dump(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """The values of some rows, as arrays to be saved."""
        return {"data": self.data.take(rows, 0)}

    def select(self, arrays: Mapping[str, NDArray[Any]], which: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """What `dump` would have given for some of its rows alone.

        Raises:
            ValueError: If the arrays do not fit.
        """
        return {"data": expect(arrays, "data", (len(arrays["data"]), *self.shape), self.dtype).take(which, 0)}

    def restore(self, rows: NDArray[np.int64], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill rows from what `dump` gave.

        Raises:
            ValueError: If the arrays do not fit.
        """
        self.data[rows] = expect(arrays, "data", (len(rows), *self.shape), self.dtype)
        self.seal_many(rows)

    @property
    def nbytes(self) -> int:
        """Bytes held beside the arrays of `rows`."""
        return 0


class ObjectLeaf(ArrayLeaf):
    """Values that are no arrays, as they are; nothing is checked or copied."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows, (), object, strict=False)

    def check(self, value: Any, name: str) -> Any:
        """The value itself."""
        return value

    def check_many(self, values: Any, count: int, name: str) -> Any:
        """The values in an array of objects."""
        if len(values) != count:
            raise ValueError(f"{name}: got {len(values)} values, expected {count}")
        return np.fromiter(values, object, count)

    def same(self, row: int, value: Any) -> bool:
        """Whether a row holds this very object; equality of unknown objects may be costly or undefined."""
        return self.data[row] is value

    def same_many(self, rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
        """The same for each of several rows."""
        return np.array([self.data[row] is value for row, value in zip(rows, values, strict=True)], np.bool_)

    def drop(self, row: int) -> None:
        """Let go of the object."""
        self.data[row] = None

    def job(self, rows: NDArray[np.int64]) -> Job:
        """The objects themselves."""
        objects: list[Any] = self.data[rows].tolist()
        return objects

    def spec(self) -> dict[str, Any]:
        """How to make this leaf again, in JSON."""
        return {"kind": "object"}


def expect(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """The array of this name, if it has this shape and dtype.

    Raises:
        ValueError: If it is missing or has not.
    """
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"the array {name!r} is missing")
    if array.shape != shape or array.dtype != (dtype := np.dtype(dtype)):
        raise ValueError(f"the array {name!r} has shape {array.shape}, {array.dtype}, expected {shape}, {dtype}")
    return array


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], np.ndarray | np.generic)


def to_tensors(jobs: Sequence[Job], device: torch.device | str) -> list[Any]:
    """Gather rows of arrays as fresh tensors; lists of objects pass as they are.

    For a CUDA device all rows are gathered into one page-locked buffer and travel in one copy.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _through_pinned_memory(jobs, device)
    tensors = [job if isinstance(job, list) else torch.from_numpy(job[0].take(job[1], 0, None, "clip")) for job in jobs]
    return tensors if device.type == "cpu" else [t if isinstance(t, list) else t.to(device) for t in tensors]


def _through_pinned_memory(jobs: Sequence[Job], device: torch.device) -> list[Any]:
    starts, shapes, size = [], [], 0
    for job in jobs:
        shape = () if isinstance(job, list) else (*job[1].shape, *job[0].shape[1:])
        nbytes = 0 if isinstance(job, list) else int(np.prod(shape)) * job[0].itemsize
        starts.append((size, size + nbytes))
        shapes.append(shape)
        size += -(-nbytes // _ALIGNMENT) * _ALIGNMENT
    staging = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    host = staging.numpy()
    for job, (start, stop), shape in zip(jobs, starts, shapes, strict=True):
        if not isinstance(job, list):
            job[0].take(job[1], 0, host[start:stop].view(job[0].dtype).reshape(shape), "clip")
    # The allocator of page-locked memory reuses the buffer only after the copy is done.
    moved = staging.to(device, non_blocking=True)
    tensors: list[Any] = []
    for job, (start, stop), shape in zip(jobs, starts, shapes, strict=True):
        if isinstance(job, list):
            tensors.append(job)
        else:
            dtype = torch.from_numpy(np.empty(0, job[0].dtype)).dtype
            tensors.append(moved[start:stop].view(dtype).view(shape))
    return tensors
