"""New HDF5 files: what the disk refuses is told after the library HDF5 is done, since it takes no refusal well."""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any

from pfrl_like.dataset.io.hdf5_members import h5py_module
from pfrl_like.storage import atomic_path


@contextlib.contextmanager
def new_hdf5(path: str | os.PathLike[str], **options: Any) -> Iterator[Any]:
    """An open file of h5py, which takes the place of `path` at the end.

    Args:
        path: The file.
        options: Further arguments of `h5py.File`.

    Raises:
        CheckpointError: If it cannot be written; an old file of this name is still in place.
        MissingDependencyError: If h5py is not installed.
    """
    h5py = h5py_module()
    with atomic_path(path) as temporary, open(temporary, "w+b", buffering=0) as file:
        output = _Output(file)
        with h5py.File(output, "w", **options) as made:
            yield made
        if output.error is not None:
            raise output.error


class _Output(io.RawIOBase):
    """A file that takes everything, and keeps the first error: one that HDF5 is told crashes the process as it ends.

    After an error nothing is written any more, and zeros are read.

    Args:
        file: An unbuffered file, open for reading and writing.
    """

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self.file = file
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        count = len(rest)
        try:
            while rest and self.error is None:
                rest = rest[self.file.write(rest) :]  # near its limit a disk takes a part
        except OSError as error:
            self.error = error
        return count

    def readinto(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        count = self.file.readinto(view) or 0
        view[count:] = bytes(len(view) - count)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return self.file.truncate(size)
        except OSError as error:
            self.error = self.error or error
            return self.tell() if size is None else size
