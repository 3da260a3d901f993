"""`FrameLeaf`, a column of stacked frames that stores each frame once; `MappedRows`, rows in memory-mapped files."""

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pfrl_like.columns.frame_stacks import frames_of, stack_form
from pfrl_like.columns.leaves import ArrayLeaf, Holder, Job, Rows, expect, unique_in_order


class GrowingFile(Protocol):
    """A file that can be mapped and can grow."""

    @property
    def size(self) -> int:
        """Size of the file in bytes."""

    def map(self, size: int) -> NDArray[np.uint8]:
        """Map the first `size` bytes to a new array, shape [size]. If the file is smaller, it grows."""


class _Values(NamedTuple):
    holder: Holder
    file: GrowingFile
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        return self.dtype.itemsize * int(np.prod(self.shape))


class MappedRows(Rows):
    """Rows with values in files `name`-0, `name`-1, ...; other arrays, such as links and checksums, are in memory.

    If the files grow, they are mapped to new arrays. References to `holder.data` must then be updated in `on_resize`.

    Args:
        open_file: Function that opens or creates the file of a given name.
        name: First part of the files' names.
        on_resize: Function called after the arrays of values were replaced.

    Attributes:
        can_widen: False, because the files keep their dtype.
        released: Rows that are no longer used, although the state on disk may still refer to them. `recycle` frees
            them, except rows that a save refers to, see `keep`.
    """

    can_widen = False

    def __init__(self, open_file: Callable[[str], GrowingFile], name: str, on_resize: Callable[[], None]) -> None:
        super().__init__()
        self.released = []
        self._open_file = open_file
        self._name = name
        self._on_resize = on_resize
        self._values: list[_Values] = []
        self._siblings: list[MappedRows] = []
        self._protected: dict[str, NDArray[np.bool_]] = {}  # for each save, True for the rows that the save refers to
        self._held: list[int] = []  # rows that only saves refer to

    def values(self, holder: Holder, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        """Set `holder.data` to an array over a file, and `holder.sums` to an array of checksums of its rows.

        Raises:
            ValueError: If the values are objects.
        """
        if np.dtype(dtype) == object:
            raise ValueError("the files of a persistent buffer can only store arrays, got objects")
        holder.sums = self.array((), np.uint32)
        values = _Values(holder, self._open_file(f"{self._name}-{len(self._values)}"), tuple(shape), np.dtype(dtype))
        self._values.append(values)
        _map(values, self.size)

    def sibling(self) -> Rows:
        """Return new rows with values in other files."""
        rows = MappedRows(self._open_file, f"{self._name}-{len(self._siblings)}-frames", self._on_resize)
        self._siblings.append(rows)
        return rows

    def recycle(self) -> None:
        """Free the released rows. The state on disk must no longer refer to them."""
        self._free_unprotected(self.released)
        self.released.clear()
        for sibling in self._siblings:
            sibling.recycle()

    def keep(self, save: str, rows: NDArray[np.int64]) -> None:
        """Protect the rows that a save refers to from being overwritten, until `keep_only` does not name the save."""
        self._protected[save] = np.zeros(self.size, np.bool_)
        self._protected[save][rows] = True
        self._update_free()

    def keep_only(self, saves: Container[str]) -> None:
        """Remove the protection by all saves that are not in `saves`."""
        self._protected = {save: rows for save, rows in self._protected.items() if save in saves}
        self._update_free()
        for sibling in self._siblings:
            sibling.keep_only(saves)

    def _update_free(self) -> None:
        unused = self._held + self.free
        self.free.clear()
        self._held.clear()
        self._free_unprotected(unused)

    def _free_unprotected(self, unused: list[int]) -> None:
        """Free the unused rows, except rows that a save refers to. These rows are stored in `_held`."""
        if self._protected:
            rows = np.array(unused, np.int64)
            protected = np.zeros(len(rows), np.bool_)
            for named in self._protected.values():
                protected |= (rows < len(named)) & named.take(rows, mode="clip")
            self._held += rows[protected].tolist()
            unused = rows[~protected].tolist()
        self.free[:0] = unused

    def grow_to_files(self) -> None:
        """Grow to all rows in the files. Call `mark_used` next with the rows in use."""
        lengths = [values.file.size // max(1, values.row_bytes) for values in self._values]
        self._resize(max(1, min(lengths, default=self.size)))
        for sibling in self._siblings:
            sibling.grow_to_files()

    def mark_used(self, used: NDArray[np.int64]) -> None:
        """Mark exactly these rows as used."""
        super().mark_used(used)
        self.released.clear()
        self._held.clear()
        self._update_free()

    @property
    def row_bytes(self) -> int:
        """Number of bytes per row in the files, including a row of each sibling."""
        return sum(v.row_bytes for v in self._values) + sum(sibling.row_bytes for sibling in self._siblings)

    def _resize(self, size: int) -> None:
        for values in self._values:  # the files grow first, because this may fail on a full disk
            _map(values, size)
        super()._resize(size)
        self._on_resize()

    def _row_bytes(self) -> int:
        return super()._row_bytes() + sum(values.row_bytes for values in self._values)


def _map(values: _Values, rows: int) -> None:
    holder, file, shape, dtype = values
    content = file.map(rows * max(1, values.row_bytes))  # >= 1 byte per row: the size defines the number of rows
    holder.data = content.view(dtype).reshape(rows, *shape) if values.row_bytes else np.zeros((rows, *shape), dtype)


_LARGE_BLOCK = 24 << 20
_OWN_MAPPING = 1 << 20


class _Numbers:
    """Holder of the frame numbers of rows."""

    data: NDArray[np.int64]
    sums: Any = None


class FrameLeaf(ArrayLeaf):
    """Stacks of `depth` frames. A row contains frame numbers, and consecutive stacks share frames.

    A stack is an array, or an object with its frames in a list `_frames` (PFRL's and gym's LazyFrames). Every append
    compares the frames with the frames of the previous stack. A stack that does not continue the previous stack is
    stored completely.

    Args:
        rows: The rows of the column.
        shape: Shape of one stack.
        dtype: Dtype of the values.
        frame_shape: Shape of a frame. A stack has as many elements as `depth` frames.
        depth: Number of frames in a stack.
        axis: Axis along which the frames are stacked, after a reshape of the stack to `(*frame_shape[:axis], depth,
            *frame_shape[axis:])`.
    """

    def __init__(
        self, rows: Rows, shape: tuple[int, ...], dtype: DTypeLike, frame_shape: tuple[int, ...], depth: int, axis: int
    ) -> None:
        super().__init__(Rows(), shape, dtype, strict=True)  # self.data is replaced by the frames
        self.frame_shape = tuple(frame_shape)
        self.depth = depth
        self.axis = axis
        self.frames = rows.sibling()
        self.frames.values(self, self.frame_shape, self.dtype)
        self.value_rows = self.frames
        # A block of this size has its own memory mapping and grows by remapping, so it leaves no hole in the heap.
        self.frames.reserve(_OWN_MAPPING // self.data.itemsize // max(1, int(np.prod(self.frame_shape))))
        self._numbers = _Numbers()
        rows.values(self._numbers, (depth,), np.int64)
        self._frame_kinds = [(self.frame_shape, self.dtype)] * depth
        self._split_shape = (*self.frame_shape[:axis], depth, *self.frame_shape[axis:])
        self._split_order = (axis, *(i for i in range(len(self._split_shape)) if i != axis))
        self._uses = [0] * self.frames.size  # number of stacks that contain a frame
        # glibc returns large freed blocks, such as a minibatch of frames, to the system. Paging in the next block takes
        # three times as long as filling it. If a larger block is freed once, glibc raises its threshold and no longer
        # returns blocks of the minibatch's size.
        np.empty(_LARGE_BLOCK, np.uint8)
        self._objects: dict[int, list[Any]] = {}  # frame objects of the newest stack of running episodes

    def widen(self, dtype: np.dtype[Any]) -> None:
        super().widen(dtype)
        self._frame_kinds = [(self.frame_shape, self.dtype)] * self.depth

    @property
    def index(self) -> NDArray[np.int64]:
        """The frame numbers of each row."""
        return self._numbers.data

    def check(self, value: Any, name: str) -> Any:
        """Check a stack. Return it unchanged if it has a list of frames, otherwise as an array."""
        frames = frames_of(value)
        if frames is not None and [(frame.shape, frame.dtype) for frame in frames] == self._frame_kinds:
            return value
        return super().check(np.asarray(value), name)

    def check_many(self, values: Any, count: int, name: str) -> Any:
        """Check `count` stacks and return them as a list."""
        if len(values) != count:
            raise ValueError(f"{name}: got {len(values)} values, expected {count}")
        return [self.check(value, f"{name}[{i}]") for i, value in enumerate(values)]

    def put(self, row: int, value: Any, previous_row: int) -> None:
        """Store a stack. Frames that are also in the stack in `previous_row` are not stored again."""
        frames, objects = self._split(value)
        before = self.index[previous_row].tolist() if previous_row else []
        known = self._objects.pop(previous_row, None)
        numbers: list[int] = []
        for j, frame in enumerate(frames):
            number = 0
            if before and j + 1 < self.depth:
                number = self._number_if_equal(before[j + 1], frame, known[j + 1] if objects and known else None)
            if not number and j:
                number = self._number_if_equal(numbers[-1], frame, frames[j - 1] if objects else None)
            numbers.append(number or self._store(frame))
            self._uses[numbers[-1]] += 1
        self.index[row] = numbers
        if objects:
            self._objects[row] = frames

    def put_many(self, rows: NDArray[np.int64], values: Any, previous_rows: NDArray[np.int64]) -> None:
        """Store several stacks."""
        for row, value, before in zip(rows.tolist(), values, previous_rows.tolist(), strict=True):
            self.put(row, value, before)

    def same(self, row: int, value: Any) -> bool:
        """Return True if the stack in a row has the same frame objects as this stack, or frames with equal content."""
        frames, objects = self._split(value)
        known = self._objects.get(row) if objects else None
        if known is not None and all(a is b for a, b in zip(frames, known, strict=True)):
            return True
        numbers = self.index[row].tolist()
        return all(self._number_if_equal(number, frame, None) for number, frame in zip(numbers, frames, strict=True))

    def same_many(self, rows: NDArray[np.int64], values: Any) -> NDArray[np.bool_]:
        """Return an array [n] that is True where a row contains its stack."""
        return np.array([self.same(row, value) for row, value in zip(rows.tolist(), values, strict=True)], np.bool_)

    def drop(self, row: int) -> None:
        """Free the frames that only the stack in this row contains."""
        for number in self.index[row].tolist():
            self._uses[number] -= 1
            if not self._uses[number]:
                self.frames.released.append(number)
        self._objects.pop(row, None)

    def mark_last(self, row: int) -> None:
        """Drop the references to the frame objects of an episode's last stack."""
        self._objects.pop(row, None)

    def _split(self, value: Any) -> tuple[list[Any], bool]:
        frames = frames_of(value)
        if frames is not None:
            return list(frames), True
        return list(value.reshape(self._split_shape).transpose(self._split_order)), False

    def _number_if_equal(self, number: int, frame: Any, known: Any) -> int:
        """Return `number` if the stored frame with this number equals `frame`, else 0."""
        if frame is known or self.data[number].tobytes() == frame.tobytes():
            return number
        return 0

    def _store(self, frame: Any) -> int:
        if not self.frames.free:
            self.frames.reserve(1)
            self._uses.extend([0] * (self.frames.size - len(self._uses)))
        number = self.frames.free.pop()
        self.data[number] = frame
        if self.sums is not None:
            self.update_checksum(number)
        return number

    @property
    def locator_dtype(self) -> np.dtype[Any]:
        """Dtype of a locator: the frame numbers of a stack and the checksums of the frames."""
        return np.dtype([("frames", "<i8", (self.depth,)), ("sums", "<u4", (self.depth,))])

    def locator(self, row: int) -> bytes:
        """Return the locator of one row, as bytes."""
        return self.locators(np.array([row])).tobytes()

    def locators(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the locators of the stacks in these rows, shape [n]: frame numbers and checksums."""
        locators = np.empty(len(rows), self.locator_dtype)
        locators["frames"] = self.index.take(rows, 0)
        locators["sums"] = self.sums.take(locators["frames"])
        return locators

    def set_locators(self, rows: NDArray[np.int64], locators: NDArray[Any]) -> None:
        """Set the locators of the stacks in these rows. The files contain the frames. Call `mark_used` next."""
        frames = self._frames_in(locators)
        self.index[rows] = frames
        self.sums[frames] = locators["sums"]

    def keep(self, save: str, locators: NDArray[Any]) -> None:
        """Protect the frames of these stacks from being overwritten, as long as the save exists."""
        assert isinstance(self.frames, MappedRows)
        self.frames.keep(save, self._frames_in(locators).ravel())

    def _frames_in(self, locators: NDArray[Any]) -> NDArray[np.int64]:
        frames: NDArray[np.int64] = locators["frames"]
        if frames.size and not (frames.min() > 0 and frames.max() < self.frames.size):
            raise ValueError("frame numbers out of range")
        return frames

    def damaged(self, rows: NDArray[np.int64]) -> bool:
        """Return True if a frame of the stacks in these rows does not match its checksum."""
        return super().damaged(np.unique(self.index.take(rows, 0)))

    def mark_used(self, rows: NDArray[np.int64]) -> None:
        """Mark exactly these rows as used: count the uses of each frame, and free the frames that are not used."""
        uses = np.bincount(self.index.take(rows, 0).ravel(), minlength=self.frames.size)
        self._uses = uses.tolist()
        self.frames.mark_used(np.flatnonzero(uses))

    def job(self, rows: NDArray[np.int64]) -> Job:
        """Return the gather job for the frames of the stacks in these rows."""
        return self.data, self.index.take(rows, 0)

    def finish(self, gathered: Any) -> Any:
        """Convert a tensor of frames, shape [B, depth, *frame_shape], to stacks of shape [B, *shape]."""
        return gathered.movedim(1, self.axis + 1).reshape(len(gathered), *self.shape)

    def spec(self) -> dict[str, Any]:
        """Return a description of this leaf without its values, as JSON."""
        shapes = {"shape": list(self.shape), "frame_shape": list(self.frame_shape)}
        return {"kind": "frames", "dtype": self.dtype.str, "depth": self.depth, "axis": self.axis, **shapes}

    def dump(self, rows: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the frames and frame numbers of some rows."""
        used, index = unique_in_order(self.index.take(rows, 0))
        return {"frames": self.data.take(used, 0), "index": index.reshape(len(rows), self.depth).astype(np.int64)}

    def select(self, arrays: Mapping[str, NDArray[Any]], which: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
        """Return the result of `dump` for selected rows, with only their frames."""
        frames = expect(arrays, "frames", (len(arrays["frames"]), *self.frame_shape), self.dtype)
        index = expect(arrays, "index", (len(arrays["index"]), self.depth), np.int64).take(which, 0)
        used, index = unique_in_order(index)
        return {"frames": frames.take(used, 0), "index": index.reshape(len(which), self.depth).astype(np.int64)}

    def restore(self, rows: NDArray[np.int64], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Fill rows from the result of `dump`."""
        index = expect(arrays, "index", (len(rows), self.depth), np.int64)
        count = len(arrays["frames"]) if "frames" in arrays else 0
        frames = expect(arrays, "frames", (count, *self.frame_shape), self.dtype)
        if index.size and (index.min() < 0 or index.max() >= count):
            raise ValueError("frame numbers out of range")
        numbers = self.frames.take(count)
        self._uses.extend([0] * (self.frames.size - len(self._uses)))
        self.data[numbers] = frames
        self.update_checksums(numbers)
        self.index[rows] = numbers[index] if count else index
        for number, uses in zip(*np.unique(self.index[rows], return_counts=True), strict=True):
            self._uses[number] = int(uses)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the frames."""
        return self.frames.nbytes


def frame_leaf(rows: Rows, value: Any) -> FrameLeaf | None:
    """Return a column for stacks like `value`; None if `value` is not a stack of frames, or if its frames are small."""
    form = stack_form(value)
    return None if form is None else FrameLeaf(rows, *form)
