"""A file that grows while a program runs, on a disk that may be full for a while."""

import contextlib
import os
from collections.abc import Callable
from typing import Any

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, named_errors

#: Gives a context for something of this name to be written in: what becomes of it if that fails.
Told = Callable[[str], contextlib.AbstractContextManager[Any]]
#: Bytes that may wait for room.
MOST_WAITING = 1 << 26


class AppendedFile:
    """A file that holds whole pieces only: all up to some piece, and nothing of those after it.

    What cannot be written waits in memory, and is tried again with whatever comes next, so that a disk which was full
    for a while costs nothing. If more waits than `MOST_WAITING`, the file ends where it is.

    Args:
        path: The file.
        keep: Bytes of it that stay; None for all.
        after: A file that is written first, so that no piece is there before those of that one which came before it.

    Attributes:
        told: Gives the context in which `push`, `append` and `close` write, called with the name of the file.

    Raises:
        CheckpointError: If it cannot be opened.
    """

    is_elsewhere = True  # nothing in it draws random numbers, see `utils.reachable_streams`

    def __init__(
        self, path: str | os.PathLike[str], *, keep: int | None = None, after: "AppendedFile | None" = None
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.after = after
        self.told: Told = contextlib.nullcontext
        self._waiting = bytearray()
        self._whole: int | None = None  # size up to which the file is whole, if it could not be cut
        self._ended = False
        self._open()
        if keep is not None:
            self.cut(keep)

    def _open(self) -> None:
        with named_errors(self.path, "written"):
            self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115 (closed by close)

    @property
    def size(self) -> int:
        """Bytes that the file has."""
        return os.fstat(self._file.fileno()).st_size

    def hold(self, piece: bytes | bytearray) -> None:
        """Keep a piece for the next time that something is written."""
        if self._ended or len(self._waiting) + len(piece) > MOST_WAITING:
            self._ended = True
            self._waiting = bytearray()
        else:
            self._waiting += piece

    def append(self, piece: bytes | bytearray) -> None:
        """Write a piece, after what waits."""
        self.hold(piece)
        self.push()

    def push(self) -> None:
        """Write what waits; `told` says what becomes of a failure."""
        with self.told(os.path.basename(self.path)):
            self.flush()
            if self._ended:
                raise CheckpointError(self.path, f"ends early: {MOST_WAITING} bytes were waiting for room")

    def flush(self) -> None:
        """Write what waits; a file that has been closed is opened again for it.

        Raises:
            CheckpointError: If that cannot be; it goes on waiting.
        """
        if not self._waiting:
            return
        if self.after is not None:
            self.after.flush()
        if self._file.closed:
            self._open()
        with named_errors(self.path, "written"):
            self._cut_torn()
            before, done, nothing = self.size, 0, bytearray()
            try:
                while done < len(self._waiting):
                    done += self._file.write(memoryview(self._waiting)[done:])
                self._waiting = nothing
            except BaseException:  # a signal may come here, too
                self._whole = before
                with contextlib.suppress(OSError):
                    self._cut_torn()
                raise

    def cut(self, size: int) -> None:
        """Drop what the file has beyond a size.

        Raises:
            CheckpointError: If that cannot be.
        """
        with named_errors(self.path, "written"):
            self._file.truncate(size)

    def replace(self, content: bytes) -> None:
        """Let the file hold this instead of what it holds.

        Raises:
            CheckpointError: If that cannot be; it holds then what it held.
        """
        with named_errors(self.path, "written"):
            self._file.close()  # a file that is open cannot be replaced everywhere
            try:
                atomic_write(self.path, content)
            finally:
                self._open()

    def _cut_torn(self) -> None:
        if self._whole is not None:
            self._file.truncate(self._whole)
            self._whole = None

    def close(self) -> None:
        """Write what waits, for the last time, and close the file; the error of that counts, too."""
        if self._file.closed:
            return
        with self.told(os.path.basename(self.path)):
            try:
                self.flush()
            finally:
                with named_errors(self.path, "written"):
                    self._file.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()
