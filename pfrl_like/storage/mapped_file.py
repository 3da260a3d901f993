"""A file that is mapped into memory and grows."""

import errno
import mmap
import os
import stat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.errors import CheckpointError

_ZEROS = bytes(1 << 20)
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class MappedFile:
    """A file for values in rows; its content is what was written through the arrays that `map` gives.

    Room is taken on the disk before it is mapped, so that a full disk is an error and not a signal.

    Args:
        path: The file; made if it does not exist.

    Raises:
        CheckpointError: If it cannot be opened, or is no plain file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o666)
        except OSError as error:
            raise CheckpointError(path, f"cannot be opened: {error.strerror or error}") from error
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise CheckpointError(path, "is not a regular file")
        self._map: mmap.mmap | None = None

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self._descriptor).st_size

    def map(self, size: int) -> NDArray[np.uint8]:
        """Its first `size` bytes as a new array over the file, which grows if it is smaller.

        Raises:
            CheckpointError: If there is no room for it.
        """
        try:
            if size > self.size:
                self._grow(size)
            self._map = mmap.mmap(self._descriptor, size)
        except (OSError, ValueError) as error:
            raise CheckpointError(self.path, f"cannot be given {size} bytes: {error}") from error
        return np.frombuffer(self._map, np.uint8)

    def sync(self) -> None:
        """Wait until what has been written would survive a power cut.

        Raises:
            CheckpointError: If the disk reports an error.
        """
        try:
            if self._map is not None:
                self._map.flush()
            os.fsync(self._descriptor)
        except OSError as error:
            raise CheckpointError(self.path, f"cannot be written: {error.strerror or error}") from error

    def close(self) -> None:
        """Let go of the file; arrays over it stay valid."""
        self._map = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _grow(self, size: int) -> None:
        before = self.size
        allocate: Any = getattr(os, "posix_fallocate", None)
        try:
            if allocate is not None:
                try:
                    allocate(self._descriptor, before, size - before)
                    return
                except OSError as error:
                    if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                        raise
            os.lseek(self._descriptor, before, os.SEEK_SET)
            while self.size < size:
                os.write(self._descriptor, _ZEROS[: size - self.size])
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise
