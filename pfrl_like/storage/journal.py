"""Files that grow: a journal of records, each whole or absent, and a table that waits while the disk is full."""

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import OpenFile, atomic_write, named_errors, read_bounded

SYNCED = b"Y\x9d\x1f\xc3synced\x00\x17"
MAGIC = b"PFRLJRN1"

_HEAD = struct.Struct("<QI")
_SUM = struct.Struct("<I")
_LARGEST = 1 << 30  # bytes, of which no more are written: reading takes some times as many of memory
_MARK = _HEAD.size + _SUM.size + len(SYNCED)


class Journal(OpenFile):
    """A new file of records, being written.

    Args:
        path: The file; an old one of this name is emptied.

    Raises:
        CheckpointError: If it cannot be made.
    """

    def __init__(self, path: str) -> None:
        self.count = 0
        self.size = len(MAGIC)
        self._marked = False
        with named_errors(path, "written"):
            super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        try:
            self._write(MAGIC)
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[bytes]) -> bool:
        """Write records; when this returns they survive the end of the process.

        Returns:
            Whether there is room for them, and for the mark that follows; nothing is written where there is none.

        Raises:
            CheckpointError: If they cannot be written, some or all of them.
        """
        content = self._framed(records)
        fits = self.size + len(content) + _MARK <= _LARGEST
        if fits:
            self._add(content, len(records))
            self._marked = False
        return fits

    def mark(self) -> None:
        """Write `SYNCED`, unless it is the last record.

        Raises:
            CheckpointError: If it cannot be written.
        """
        if not self._marked:
            self._add(self._framed([SYNCED]), 1)
            self._marked = True

    def sync(self) -> None:
        """Wait until the records would survive a power cut.

        Raises:
            CheckpointError: If the disk reports an error.
        """
        with named_errors(self.path, "written"):
            os.fsync(self._descriptor)

    def _framed(self, records: Sequence[bytes]) -> bytes:
        parts = []
        for number, content in enumerate(records, self.count):
            head = _HEAD.pack(number, len(content))
            parts += [head, _SUM.pack(zlib.crc32(content, zlib.crc32(head))), content]
        return b"".join(parts)

    def _add(self, content: bytes, count: int) -> None:
        self._write(content)
        self.size += len(content)
        self.count += count

    def _write(self, content: bytes) -> None:
        done = 0
        try:
            while done < len(content):
                done += os.write(self._descriptor, content[done:])
        except OSError as error:
            raise CheckpointError(self.path, f"cannot be written: {error.strerror or error}") from error


def read_journal(path: str) -> tuple[list[bytes], int]:
    """The records of a journal up to the first that is not whole, and how many of them are known to be on the disk.

    Raises:
        CheckpointError: If it cannot be read, begins otherwise, or is damaged before a record that was synced.
    """
    content = read_bounded(path, _LARGEST)
    if not content.startswith(MAGIC):
        raise CheckpointError(path, "is no journal, or is damaged: it begins otherwise")
    records: list[bytes] = []
    synced, at = 0, len(MAGIC)
    while (record := _record(content, at, len(records))) is not None:
        records.append(record)
        at += _HEAD.size + _SUM.size + len(record)
        if record == SYNCED:
            synced = len(records)
    found = content.find(SYNCED, at)
    while found >= 0:  # what was cut off at its end has no such record behind the cut
        begin = found - _HEAD.size - _SUM.size
        if begin >= at and _is_mark(content, begin):
            raise CheckpointError(path, f"is damaged behind byte {at}, where record {len(records)} begins")
        found = content.find(SYNCED, found + 1)
    return records, synced


def _is_mark(content: bytes, at: int) -> bool:
    """Whether a whole record of `SYNCED`, of whatever number, begins at this byte.

    One of another length is not looked at: a file that names large ones all over would take the square of its size.
    """
    number, length = _HEAD.unpack_from(content, at)
    return length == len(SYNCED) and _record(content, at, number) is not None


def _record(content: bytes, at: int, number: int) -> bytes | None:
    """The record that begins at this byte, if it is whole and has this number."""
    begin = at + _HEAD.size + _SUM.size
    if begin > len(content):
        return None
    found, length = _HEAD.unpack_from(content, at)
    record = content[begin : begin + length]
    if len(record) < length or found != number:
        return None
    (expected,) = _SUM.unpack_from(content, at + _HEAD.size)
    return record if zlib.crc32(record, zlib.crc32(content[at : at + _HEAD.size])) == expected else None


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

    is_elsewhere = True  # nothing in it draws random numbers, see `random_streams.reachable`

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
        """Bytes that the file has.

        Raises:
            CheckpointError: If the system does not say.
        """
        with named_errors(self.path, "read"):
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
