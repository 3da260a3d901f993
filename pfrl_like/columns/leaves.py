"""Columns of arrays and objects, management of their rows, and gathering of rows as tensors on a device."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

_CHUNK_BYTES = 1 << 16
_LARGEST_CHUNK = 1 << 16  # in rows
_LARGE_ROW_BYTES = 1 << 10
#: Input of `to_tensors` for one column: an array and the rows to take from the array, or a list of objects.
Job = tuple[NDArray[Any], NDArray[np.int64]] | list[Any]
_SUM = struct.Struct("<I")
#: Kinds of NumPy dtypes that tensors support.
NUMBERS = "biufc"
_NO_TORCH_DTYPES = (np.dtype(np.longdouble), np.dtype(np.clongdouble))
_ALIGNMENT = 64


class DtypeError(ValueError):
    """A value that the dtype of a strict column cannot represent.

    Args:
        message: The message.
        leaf: The column.
        dtype: A dtype that can represent the stored values and the new value.
    """

    def __init__(self, message: str, leaf: "ArrayLeaf", dtype: np.dtype[Any]) -> None:
        super().__init__(message)
        self.leaf, self.dtype = leaf, dtype


class Holder(Protocol):
    """Object with an array of values, one value per row, and their checksums."""

    data: NDArray[Any]
    sums: Any


class Rows:
    """Arrays with the same length, and the list of their unused rows. The arrays grow in chunks.

    Growing resizes the arrays in place (large arrays are remapped, not copied). Arrays that do not own their memory,
    because they were unpickled, are copied once. Other objects may keep references to the arrays, but not to views of
    them. Row 0 is never used: in links it means "none".

    Attributes:
        free: Numbers of unused rows. Take a row with `free.pop()` after `reserve(1)`.
        released: List of the numbers of rows that are no longer used. In this class, this list is `free`, so that the
            rows can be reused immediately.
        size: Length of the arrays.
        can_widen: True if the dtype of values can change.
    """

    can_widen = True

    def __init__(self) -> None:
        self.free: list[int] = []
        self.released = self.free
        self.size = 1
        self._arrays: list[NDArray[Any]] = []

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Add and return an array of zeros (None for objects) whose rows have this shape."""
        array = np.zeros((self.size, *shape), dtype)
        if array.dtype == object:
            array[...] = None
        self._arrays.append(array)
        return array

    def values(self, holder: Holder, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Set `holder.data` to a new array of zeros (None for objects) whose rows have this shape."""
        holder.data = self.array(shape, dtype)

    def sibling(self) -> "Rows":
        """Return new rows with the same type of storage."""
        return Rows()

    def widen(self, holder: Holder, widened: NDArray[Any]) -> None:
        """Replace `holder.data` by a new array of another dtype with the same values."""
        place = next(i for i, array in enumerate(self._arrays) if array is holder.data)
        holder.data = self._arrays[place] = widened

    def reserve(self, count: int) -> None:
        """Grow until at least `count` rows are free."""
        while len(self.free) < count:
            old = self.size
            self._resize(old + max(self._chunk(), count - len(self.free)))
            self.free[:0] = range(self.size - 1, old - 1, -1)

    def _resize(self, size: int) -> None:
        old, self.size = self.size, size
        for array in self._arrays:
            if not array.flags.owndata:
                _own(array)
            array.resize((size, *array.shape[1:]), refcheck=False)
            if array.dtype == object:
                array[old:] = None

    def take(self, count: int) -> NDArray[np.int64]:
        """Take `count` free rows and return their numbers, shape [count]."""
        if not count:
            return np.empty(0, np.int64)
        self.reserve(count)
        taken = self.free[-count:][::-1]
        del self.free[-count:]
        return np.array(taken, np.int64)

    def mark_used(self, used: NDArray[np.int64]) -> None:
        """Mark exactly these rows as used."""
        unused = np.ones(self.size, np.bool_)
        unused[0] = False
        unused[used] = False
        self.free[:] = np.flatnonzero(unused)[::-1].tolist()

    def _chunk(self) -> int:
        # Growing may copy: small rows grow by an eighth; large rows, such as images, grow less and waste less memory.
        row_bytes = self._row_bytes()
        part = self.size // (128 if row_bytes >= _LARGE_ROW_BYTES else 8)
        return min(max(part, _CHUNK_BYTES // max(row_bytes, 1), 4), _LARGEST_CHUNK)

    def _row_bytes(self) -> int:
        return sum(array.itemsize * int(np.prod(array.shape[1:])) for array in self._arrays)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the arrays, including unused rows."""
        return sum(array.nbytes for array in self._arrays)


def _own(array: NDArray[Any]) -> None:
    """Copy the values of an array into memory that the array owns. References to the array stay valid.

    NumPy resizes only arrays that own their memory. An unpickled array uses the memory of the pickle.
    """
    values = array.copy()
    state: Any = 1, (0, *array.shape[1:]), array.dtype, False, b""
    array.__setstate__(state)  # an empty array owns its memory
    array.resize(values.shape, refcheck=False)
    array[...] = values


def unique_in_order(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values of an array in the order of their first occurrence, and the index of each element.

    Args:
        numbers: Numbers of any shape.

    Returns:
        The distinct values, shape [n]. For each element of `numbers`, its index among the distinct values, with the
        shape of `numbers`.
    """
    different, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return different[order], rank[place.reshape(numbers.shape)]


def as_array(value: Any) -> NDArray[Any] | None:
    """Return the value as an array of numbers or bools; None if it is not such an array (objects, ragged lists)."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError):
        return None
    if array.dtype.kind not in NUMBERS or array.dtype in _NO_TORCH_DTYPES:
        return None
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def describe(value: Any) -> str:
    """Return a description of a rejected value for an error message: its type, shape and dtype."""
    array = as_array(value)
    kind = type(value).__name__
    if array is None:
        return f"{kind} of {value.dtype}" if hasattr(value, "dtype") else kind
    return f"{kind} of shape {array.shape}, {array.dtype}"


class ArrayLeaf:
    """Column of values with the same shape and dtype, one value per row.

    Args:
        rows: The rows of the column.
        shape: Shape of one value.
        dtype: Dtype of the values.
        strict: True to reject arrays with a different dtype that cannot be cast without loss.

    Attributes:
        data: The values.
        value_rows: The rows of `data`.
        sums: Checksum of each row of `data` if the values are in files, else None.
    """

    data: NDArray[Any]
    sums: Any = None

    def __init__(self, rows: Rows, shape: tuple[int, ...], dtype: DTypeLike, strict: bool) -> None:
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.strict = strict
        self.value_rows = rows
        rows.values(self, self.shape, self.dtype)

    def check(self, value: Any, name: str) -> NDArray[Any]:
        """Return the value as an array with the column's shape and dtype.

        Raises:
            ValueError: If the shape differs, or the dtype differs and cannot be cast (without loss, if `strict`).
        """
        return self._check(value, name, self.shape)

    def check_many(self, values: Any, count: int, name: str) -> NDArray[Any]:
        """Check `count` values, stacked or in a sequence, and return them as one array, shape [count, *shape].

        Raises:
            ValueError: If the shape differs, or the dtype differs and cannot be cast (without loss, if `strict`).
        """
        return self._check(values, name, (count, *self.shape))

    def _check(self, value: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
        array = as_array(value)
        if array is not None and array.shape == shape:
            if array.dtype == self.dtype:
                return array
            # Python numbers and lists have no dtype, so they are cast to the dtype of the column. The dtype of an array
            # was chosen by the user. If `strict`, the array is cast only if the cast is lossless.
            plain = not isinstance(value, np.ndarray | np.generic) and not _holds_arrays(value)
            castable = np.can_cast(array.dtype, self.dtype, "same_kind")
            if castable and (plain or not self.strict) and self.dtype.kind not in "iu":
                return array.astype(self.dtype)
            if (castable or self.strict) and (exact := _exact_cast(array, self.dtype)) is not None:
                return exact
        expected = f"an array of shape {shape}, {self.dtype}" if shape else f"a number, {self.dtype}"
        text = f"{name}: got {describe(value)}, expected {expected} as in the first step"
        if self.strict and array is not None and array.shape == shape:
            text += "; reset and step of the environment must return the same dtype: cast it in a wrapper"
            wider = np.result_type(self.dtype, array.dtype)
            if _exact_cast(array, wider) is not None:  # float64 cannot represent all large integers
                raise DtypeError(text, self, wider)
        raise ValueError(text)

    def widen(self, dtype: np.dtype[Any]) -> None:
        """Change the dtype of the column. The stored values do not change.

        Raises:
            ValueError: If the dtype cannot represent a stored value. Nothing is changed.
        """
        self.value_rows.reserve(1)  # values in a shared array are copied first
        self.data[self.value_rows.free] = 0  # values of evicted rows do not count
        widened = np.empty(self.data.shape, dtype)
        count = max(1, _CHUNK_BYTES // max(1, self.data[:1].nbytes))
        for start in range(0, len(widened), count):
            part = _exact_cast(self.data[start : start + count], dtype)
            if part is None:
                raise ValueError(f"{self.dtype} values of the column cannot be converted to {dtype} without loss")
            widened[start : start + count] = part
        self.value_rows.widen(self, widened)
        self.dtype = dtype

    def put(self, row: int, value: NDArray[Any], previous_row: int) -> None:
        """Store a checked value. `previous_row` is the row of the previous step of the episode, or 0."""
        self.data[row] = value
        if self.sums is not None:
            self.update_checksum(row)

    def put_many(self, rows: NDArray[np.int64], values: NDArray[Any], previous_rows: NDArray[np.int64]) -> None:
        """Store checked, stacked values. `previous_rows` are the rows of the previous steps, as in `put`."""
        self.data[rows] = values
        self.update_checksums(rows)

    def same(self, row: int, value: NDArray[Any]) -> bool:
        """Return True if a row contains exactly this value, bit for bit."""
        return bool(self.data[row].tobytes() == value.tobytes())

    def same_many(self, rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return an array [n] that is True where a row contains exactly its value, bit for bit."""
        stored = self.data.take(rows, 0)
        if not stored.size:
            return np.ones(len(rows), np.bool_)
        left, right = (np.ascontiguousarray(side).reshape(len(rows), -1).view(np.uint8) for side in (stored, values))
        return np.asarray((left == right).all(axis=1))

    def drop(self, row: int) -> None:
        """Mark a row as unused."""

    def mark_last(self, row: int) -> None:
        """Mark a row as the last row of its episode."""

    # Checksums and locators, for columns in files

    def update_checksum(self, row: int) -> None:
        """Compute the checksum of a row of `data` after the row was filled."""
        self.sums[row] = zlib.crc32(self.data[row : row + 1].data)

    def update_checksums(self, rows: NDArray[np.int64]) -> None:
        """Compute the checksums of several rows. If `sums` is None, do nothing."""
        if self.sums is not None:
            for row in rows.tolist():
                self.update_checksum(row)

    @property
    def locator_dtype(self) -> np.dtype[Any]:
        """Dtype of the locator that finds a stored value after a restart. In this class it is the checksum."""
        return np.dtype([("sum", "<u4")])

    def locator(self, row: int) -> bytes:
        """Return the locator of one row, as bytes."""
        return _SUM.pack(self.sums.item(row))

    def locators(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the locators of the values of these rows for `set_locators`, shape [n]."""
        locators = np.empty(len(rows), self.locator_dtype)
        locators["sum"] = self.sums.take(rows)
        return locators

    def set_locators(self, rows: NDArray[np.int64], locators: NDArray[Any]) -> None:
        """Set the locators of these rows. The files already contain the values.

        Raises:
            ValueError: If a locator is invalid.
        """
        self.sums[rows] = locators["sum"]

    def keep(self, save: str, locators: NDArray[Any]) -> None:
        """Protect the values that a save refers to. Here the method does nothing, because `rows` protects them."""

    def damaged(self, rows: NDArray[np.int64]) -> bool:
        """Return True if the value of one of these rows does not match its checksum."""
        return any(zlib.crc32(self.data[row : row + 1].data) != self.sums.item(row) for row in rows.tolist())

    def mark_used(self, rows: NDArray[np.int64]) -> None:
        """Mark exactly these rows as used."""

    def job(self, rows: NDArray[np.int64]) -> Job:
        """Return the gather job for these rows."""
        return self.data, rows

    def finish(self, gathered: Any) -> Any:
        """Convert the result of the gather job to values."""
        return gathered

    def spec(self) -> dict[str, Any]:
        """Return a description of this leaf without its values, as JSON."""
        return {"kind": "array", "shape": list(self.shape), "dtype": self.dtype.str, "strict": self.strict}

    def dump(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the values of some rows as arrays to be saved."""
        return {"data": self.data.take(rows, 0)}

    def select(self, arrays: Mapping[str, NDArray[Any]], which: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the result of `dump` for selected rows.

        Raises:
            ValueError: If an array has the wrong shape or dtype.
        """
        return {"data": expect(arrays, "data", (len(arrays["data"]), *self.shape), self.dtype).take(which, 0)}

    def restore(self, rows: NDArray[np.int64], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill rows from the result of `dump`.

        Raises:
            ValueError: If an array has the wrong shape or dtype.
        """
        self.data[rows] = expect(arrays, "data", (len(rows), *self.shape), self.dtype)
        self.update_checksums(rows)

    @property
    def nbytes(self) -> int:
        """Number of bytes in addition to the arrays of `rows`."""
        return 0


class ObjectLeaf(ArrayLeaf):
    """Column of values that are not arrays. The values are stored without a check or a copy."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows, (), object, strict=False)

    def check(self, value: Any, name: str) -> Any:
        """Return the unchanged value."""
        return value

    def check_many(self, values: Any, count: int, name: str) -> Any:
        """Return the values in an array of objects."""
        if len(values) != count:
            raise ValueError(f"{name}: got {len(values)} values, expected {count}")
        return np.fromiter(values, object, count)

    def same(self, row: int, value: Any) -> bool:
        """Return True if a row contains the same object. Equality is not tested: it may be slow or undefined."""
        return self.data[row] is value

    def same_many(self, rows: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return an array [n] that is True where a row contains the same object."""
        return np.array([self.data[row] is value for row, value in zip(rows, values, strict=True)], np.bool_)

    def drop(self, row: int) -> None:
        """Drop the reference to the object."""
        self.data[row] = None

    def job(self, rows: NDArray[np.int64]) -> Job:
        """Return the list of the objects."""
        return list(self.data[rows])

    def spec(self) -> dict[str, Any]:
        """Return a description of this leaf without its values, as JSON."""
        return {"kind": "object"}


def expect(arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return the array with this name, after a check of its shape and dtype.

    Raises:
        ValueError: If the array is missing, or has a different shape or dtype.
    """
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"the array {name!r} is missing")
    dtype = np.dtype(dtype)
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"the array {name!r} has shape {array.shape}, {array.dtype}, expected {shape}, {dtype}")
    return array


def _exact_cast(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any] | None:
    """Return the array with another dtype. None if the dtype cannot represent one of its values."""
    if np.can_cast(array.dtype, dtype) and (array.dtype.kind == dtype.kind or array.dtype.itemsize < 8):
        return array.astype(dtype)
    if array.dtype.kind == "c" != dtype.kind:
        return None
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
        same = (cast == array) | ((cast != cast) & (array != array))  # NaN stays NaN
        for integers, floats in ((array, cast.real), (cast, array.real)):
            # NumPy compares 64-bit integers with floats as floats, so each of them equals the float that it rounds to.
            if integers.dtype.kind in "iu" and floats.dtype.kind == "f":
                same &= (floats < float(np.iinfo(integers.dtype).max) + 1) & (floats.astype(integers.dtype) == integers)
    return cast if bool(same.all()) else None


def _holds_arrays(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and isinstance(value[0], np.ndarray | np.generic)


def to_tensors(jobs: Sequence[Job], device: torch.device | str) -> list[Any]:
    """Gather rows of arrays as new tensors. Lists of objects are returned unchanged.

    For a CUDA device all rows are gathered into one page-locked buffer and transferred in one copy.
    """
    device = torch.device(device)
    if device.type == "cuda":
        return _through_pinned_memory(jobs, device)
    tensors = [job if isinstance(job, list) else torch.from_numpy(job[0].take(job[1], 0, None, "clip")) for job in jobs]
    return tensors if device.type == "cpu" else [t if isinstance(t, list) else t.to(device) for t in tensors]


def _through_pinned_memory(jobs: Sequence[Job], device: torch.device) -> list[Any]:
    gathers = [job for job in jobs if not isinstance(job, list)]
    shapes = [(*rows.shape, *data.shape[1:]) for data, rows in gathers]
    sizes = [int(np.prod(shape)) * data.itemsize for shape, (data, _) in zip(shapes, gathers, strict=True)]
    starts = np.cumsum([0, *(-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes)]).tolist()
    staging = torch.empty(starts.pop(), dtype=torch.uint8, pin_memory=True)
    parts = [slice(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    for (data, rows), part, shape in zip(gathers, parts, shapes, strict=True):
        data.take(rows, 0, staging.numpy()[part].view(data.dtype).reshape(shape), "clip")
    # The allocator of page-locked memory reuses the buffer only after the copy is done.
    moved = staging.to(device, non_blocking=True)
    dtypes = [torch.from_numpy(np.empty(0, data.dtype)).dtype for data, _ in gathers]
    tensors = (moved[part].view(dtype).view(shape) for part, dtype, shape in zip(parts, dtypes, shapes, strict=True))
    return [job if isinstance(job, list) else next(tensors) for job in jobs]
