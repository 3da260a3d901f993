"""`SharedArrays`: NumPy arrays in shared memory. The memory is freed when the last process has closed it."""

import contextlib
import itertools
import os
import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.stoppable_thread import start_time

#: Shape and dtype (as `dtype.str`) of each array.
Layout = tuple[tuple[tuple[int, ...], str], ...]

_ALIGNMENT = 64
_MEMORY_FILES = Path("/dev/shm")
_STALE_SECONDS = 60.0
_counter = itertools.count()


class SharedArrays:
    """Arrays in one block of shared memory.

    The owner creates the arrays. The other processes call `attach` with the name and the layout. After all processes
    have attached, the owner calls `unlink` to remove the name. The system frees the memory when the last process has
    closed the arrays or died.

    Args:
        layout: Shapes and dtypes of the arrays.

    Attributes:
        name: Name of the block, `pl_<pid>_<start time of the process>_<n>`.
        layout: Shapes and dtypes of the arrays.
        arrays: The arrays, initially zero.

    Raises:
        OSError: If there is not enough shared memory.
    """

    def __init__(self, layout: Layout) -> None:
        _remove_stale_blocks()
        self.layout = layout
        self.name = f"pl_{os.getpid()}_{start_time(os.getpid())}_{next(_counter)}"
        size = _offsets(layout)[-1]
        self._memory = SharedMemory(self.name, create=True, size=size)
        try:
            _reserve(self.name, size)
        except OSError:
            self._memory.close()
            self._memory.unlink()
            raise
        self._linked = True
        self.arrays = _arrays(self._memory, layout)

    @classmethod
    def attach(cls, name: str, layout: Layout) -> "SharedArrays":
        """Open the arrays that another process has created."""
        self = cls.__new__(cls)
        self.name, self.layout, self._linked = name, layout, False
        self._memory = SharedMemory(name)
        self.arrays = _arrays(self._memory, layout)
        return self

    def unlink(self) -> None:
        """Remove the name, if this object is the owner. A second call does nothing."""
        if self._linked:
            self._linked = False
            self._memory.unlink()

    def close(self) -> None:
        """Close the memory and remove the name. No other array may refer to the memory."""
        self.arrays.clear()
        with contextlib.suppress(BufferError):  # another array refers to the memory, and frees it later
            self._memory.close()
        self.unlink()

    def __del__(self) -> None:
        if hasattr(self, "arrays"):  # the constructor has finished
            self.close()


def _offsets(layout: Layout) -> list[int]:
    """Return the start of each array, followed by the total size, in bytes."""
    offsets = [0]
    for shape, dtype in layout:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        offsets.append(-(-(offsets[-1] + size) // _ALIGNMENT) * _ALIGNMENT)
    offsets[-1] = max(offsets[-1], 1)
    return offsets


def _arrays(memory: SharedMemory, layout: Layout) -> list[NDArray[Any]]:
    return [
        np.ndarray(shape, np.dtype(dtype), buffer=memory.buf, offset=start)
        for (shape, dtype), start in zip(layout, _offsets(layout), strict=False)
    ]


def _reserve(name: str, size: int) -> None:
    """Allocate the memory now, so that a full /dev/shm raises an OSError here, and not a bus error at a write."""
    path = _MEMORY_FILES / name
    if hasattr(os, "posix_fallocate") and path.exists():
        descriptor = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(descriptor, 0, size)
        finally:
            os.close(descriptor)


def _remove_stale_blocks() -> None:
    """Remove blocks that are older than a minute and whose process has died."""
    if not Path("/proc/self/stat").exists():
        return
    for path in _MEMORY_FILES.glob("pl_*_*_*"):
        parts = path.name.split("_")
        with contextlib.suppress(OSError, ValueError):
            is_old = time.time() - path.stat().st_mtime > _STALE_SECONDS
            if is_old and start_time(int(parts[1])) != int(parts[2]):
                path.unlink()
