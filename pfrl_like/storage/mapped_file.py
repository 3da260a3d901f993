"""A file that is mapped into memory and grows."""

import errno
import mmap
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import named_errors, refuse_irregular
from pfrl_like.storage.open_file import OpenFile

_ZEROS = bytes(1 << 20)


class MappedFile(OpenFile):
    """A file for values in rows; its content is what was written through the arrays that `map` gives.

    Room is taken on the disk before it is mapped, so that a full disk is an error and not a signal.

    Args:
        path: The file; made if it does not exist.
        grows: Whether it may grow now, and be made.

    Attributes:
        grows: The same.

    Raises:
        CheckpointError: If it cannot be opened, or is no plain file.
    """

    def __init__(self, path: str, grows: bool = True) -> None:
        self.grows = grows
        self._map: mmap.mmap | None = None
        with named_errors(path, "opened"):
            super().__init__(path, os.O_RDWR | (os.O_CREAT if grows else 0))
            try:
                refuse_irregular(self._descriptor, path)
            except BaseException:
                self.close()
                raise

    @property
    def size(self) -> int:
        """Bytes of the file.

        Raises:
            CheckpointError: If the system does not say.
        """
        with named_errors(self.path, "read"):
            return os.fstat(self._descriptor).st_size

    def map(self, size: int) -> NDArray[np.uint8]:
        """Its first `size` bytes as a new array over the file, which grows if it is smaller.

        Raises:
            CheckpointError: If there is no room for it, or it may not grow.
        """
        if size > self.size and not self.grows:
            raise CheckpointError(
                self.path, f"has {self.size} bytes, expected {size} at least: it is cut off or damaged"
            )
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
        with named_errors(self.path, "written"):
            if self._map is not None:
                self._map.flush()
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Let go of the file; arrays over it stay valid."""
        self._map = None
        super().close()

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
