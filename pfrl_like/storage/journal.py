"""Files that grow: a journal of checksummed records, and an appended file that waits while the disk is full."""

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
_LARGEST = 1 << 30  # most bytes of a journal: reading takes a multiple of them in memory
_MARK = _HEAD.size + _SUM.size + len(SYNCED)


class Journal(OpenFile):
    """Writer of a new journal.

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
            True if there is room for them and for the mark that follows; otherwise nothing is written.

        Raises:
            CheckpointError: If some or all of them cannot be written.
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
    """The records of a journal up to the first incomplete one, and the number of them that were synced.

    Raises:
        CheckpointError: If it cannot be read, is no journal, or is damaged before a record that was synced.
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
    while found >= 0:  # a file that is merely truncated has no such mark after the incomplete record
        begin = found - _HEAD.size - _SUM.size
        if begin >= at and _is_mark(content, begin):
            raise CheckpointError(path, f"is damaged behind byte {at}, where record {len(records)} begins")
        found = content.find(SYNCED, found + 1)
    return records, synced


def _is_mark(content: bytes, at: int) -> bool:
    """True if a complete record of `SYNCED`, of any number, begins at this byte.

    Records of other lengths are not read: in a crafted file their checksums could take time quadratic in its size.
    """
    number, length = _HEAD.unpack_from(content, at)
    return length == len(SYNCED) and _record(content, at, number) is not None


def _record(content: bytes, at: int, number: int) -> bytes | None:
    """The record that begins at this byte, or None if it is incomplete or has another number."""
    begin = at + _HEAD.size + _SUM.size
    if begin > len(content):
        return None
    found, length = _HEAD.unpack_from(content, at)
    record = content[begin : begin + length]
    if len(record) < length or found != number:
        return None
    (expected,) = _SUM.unpack_from(content, at + _HEAD.size)
    return record if zlib.crc32(record, zlib.crc32(content[at : at + _HEAD.size])) == expected else None


#: Returns a context manager, given the name of a file, that decides what happens if writing the file fails.
Told = Callable[[str], contextlib.AbstractContextManager[Any]]
#: Most bytes that may wait in memory.
MOST_WAITING = 1 << 26


class AppendedFile:
    """A file that grows by whole pieces: it holds all pieces up to some point and no part of the later ones.

    Pieces that cannot be written wait in memory and are written with the next one, so nothing is lost if the disk is
    full for a while. If more than `MOST_WAITING` bytes wait, the file ends where it is.

    Args:
        path: The file.
        keep: Bytes of the existing file to keep; None keeps all.
        after: A file that is flushed before each write to this one, so that its earlier pieces are written first.

    Attributes:
        told: Called with the name of the file; gives the context in which `push`, `append` and `close` write.

    Raises:
        CheckpointError: If it cannot be opened.
    """

    is_elsewhere = True  # it holds no random generators, see `random_streams.reachable`

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
        """Size of the file in bytes.

        Raises:
            CheckpointError: If the system reports an error.
        """
        with named_errors(self.path, "read"):
            return os.fstat(self._file.fileno()).st_size

    def hold(self, piece: bytes | bytearray) -> None:
        """Keep a piece in memory until the next write."""
        if self._ended or len(self._waiting) + len(piece) > MOST_WAITING:
            self._ended = True
            self._waiting = bytearray()
        else:
            self._waiting += piece

    def append(self, piece: bytes | bytearray) -> None:
        """Write a piece, after those that wait."""
        self.hold(piece)
        self.push()

    def push(self) -> None:
        """Write the pieces that wait, in the context that `told` gives."""
        with self.told(os.path.basename(self.path)):
            self.flush()
            if self._ended:
                raise CheckpointError(self.path, f"ends early: {MOST_WAITING} bytes were waiting for room")

    def flush(self) -> None:
        """Write the pieces that wait; a closed file is opened again for it.

        Raises:
            CheckpointError: If they cannot be written; they keep waiting.
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
        """Truncate the file to a size in bytes.

        Raises:
            CheckpointError: If it cannot be truncated.
        """
        with named_errors(self.path, "written"):
            self._file.truncate(size)

    def replace(self, content: bytes) -> None:
        """Replace the content of the file.

        Raises:
            CheckpointError: If it cannot be replaced; the file then keeps its old content.
        """
        with named_errors(self.path, "written"):
            self._file.close()  # Windows cannot replace an open file
            try:
                atomic_write(self.path, content)
            finally:
                self._open()

    def _cut_torn(self) -> None:
        if self._whole is not None:
            self._file.truncate(self._whole)
            self._whole = None

    def close(self) -> None:
        """Write the pieces that wait and close the file; an error of closing is reported, too."""
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
