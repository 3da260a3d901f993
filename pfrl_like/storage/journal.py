"""Journals of checksummed records, and append-only files that buffer data while the disk is full."""

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
_LARGEST = 1 << 30  # maximum size of a journal in bytes; reading needs several times this memory
_MARK = _HEAD.size + _SUM.size + len(SYNCED)


class Journal(OpenFile):
    """Writer of a new journal.

    Args:
        path: Path of the file. An existing file with this name is emptied.

    Raises:
        CheckpointError: If the file cannot be created.
    """

    def __init__(self, path: str) -> None:
        self.count = self.size = 0
        self._marked = False
        with named_errors(path, "written"):
            super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        self._add(MAGIC, 0)

    def append(self, records: Sequence[bytes]) -> bool:
        """Write records. After this call, the end of the process does not destroy them.

        Returns:
            True if the records and a `SYNCED` record after them fit into the journal; otherwise nothing is written.

        Raises:
            CheckpointError: If some records cannot be written.
        """
        content = self._framed(records)
        fits = self.size + len(content) + _MARK <= _LARGEST
        if fits:
            self._add(content, len(records))
            self._marked = False
        return fits

    def mark(self) -> None:
        """Append the record `SYNCED` (all earlier records are on the disk), unless it is already the last record.

        Raises:
            CheckpointError: If the record cannot be written.
        """
        if not self._marked:
            self._add(self._framed([SYNCED]), 1)
            self._marked = True

    def sync(self) -> None:
        """Wait until the records are on the disk.

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
        done = 0
        with named_errors(self.path, "written"):
            while done < len(content):
                done += os.write(self._descriptor, content[done:])
        self.size += len(content)
        self.count += count


def read_journal(path: str) -> tuple[list[bytes], int]:
    """Return the records of a journal up to the first incomplete record, and the number of synced records.

    Raises:
        CheckpointError: If the file cannot be read, is not a journal, or is damaged before a synced record.
    """
    content = read_bounded(path, _LARGEST)
    if not content.startswith(MAGIC):
        raise CheckpointError(path, f"is not a journal, or is damaged: it does not begin with {MAGIC!r}")
    records: list[bytes] = []
    synced, at = 0, len(MAGIC)
    while (record := _record(content, at, len(records))) is not None:
        records.append(record)
        at += _HEAD.size + _SUM.size + len(record)
        if record == SYNCED:
            synced = len(records)
    position = content.find(SYNCED, at)
    while position >= 0:  # a truncated file has no SYNCED record after the incomplete record
        begin = position - _HEAD.size - _SUM.size
        # Records of other lengths are not read: the checksums of a manipulated file could need quadratic time.
        number, length = _HEAD.unpack_from(content, begin) if begin >= at else (0, 0)
        if length == len(SYNCED) and _record(content, begin, number) is not None:
            raise CheckpointError(path, f"is damaged after byte {at}, where record {len(records)} begins")
        position = content.find(SYNCED, position + 1)
    return records, synced


def _record(content: bytes, at: int, number: int) -> bytes | None:
    """Return the record that begins at byte `at`; None if the record is incomplete or does not have this number."""
    begin = at + _HEAD.size + _SUM.size
    if begin > len(content):
        return None
    stored_number, length = _HEAD.unpack_from(content, at)
    record = content[begin : begin + length]
    if len(record) < length or stored_number != number:
        return None
    (expected,) = _SUM.unpack_from(content, at + _HEAD.size)
    return record if zlib.crc32(record, zlib.crc32(content[at : at + _HEAD.size])) == expected else None


#: Function that takes a file name and returns a context manager. The context manager handles errors in writing the
#: file.
ErrorContext = Callable[[str], contextlib.AbstractContextManager[Any]]
#: Maximum number of bytes that are buffered in memory.
MAX_BUFFERED = 1 << 26


class AppendedFile:
    """An append-only file of pieces (the arguments of `append`). After an error it ends at the end of a piece.

    Pieces that cannot be written are buffered in memory and written together with the next piece. Nothing is lost if
    the disk is full for a while. If the buffer exceeds `MAX_BUFFERED` bytes, the file does not grow any more, and
    `push` raises an error.

    Args:
        path: The file.
        keep: Number of bytes of the existing file to keep. If None, all bytes are kept.
        after: A file that is flushed before each write to this file, so that its earlier pieces are written first.

    Attributes:
        error_context: Function called with the name of the file. `push`, `append` and `close` write inside the context
            manager that it returns.

    Raises:
        CheckpointError: If the file cannot be opened.
    """

    has_no_rng = True  # contains no random generators, see `random_streams.reachable`

    def __init__(
        self, path: str | os.PathLike[str], *, keep: int | None = None, after: "AppendedFile | None" = None
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.after = after
        self.error_context: ErrorContext = contextlib.nullcontext
        self._waiting = bytearray()
        self._valid_size: int | None = None  # size to truncate to before the next write, after a failed write
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
        """Buffer a piece in memory until the next write."""
        if self._ended or len(self._waiting) + len(piece) > MAX_BUFFERED:
            self._ended = True
            self._waiting = bytearray()
        else:
            self._waiting += piece

    def append(self, piece: bytes | bytearray) -> None:
        """Write the buffered pieces and this piece."""
        self.hold(piece)
        self.push()

    def push(self) -> None:
        """Write the buffered pieces, inside the context manager that `error_context` returns."""
        with self.error_context(os.path.basename(self.path)):
            self.flush()
            if self._ended:
                raise CheckpointError(self.path, f"is incomplete: the disk is full, {MAX_BUFFERED} bytes are buffered")

    def flush(self) -> None:
        """Write the buffered pieces. A closed file is opened again.

        Raises:
            CheckpointError: If the pieces cannot be written. They stay in the buffer.
        """
        if not self._waiting:
            return
        if self.after is not None:
            self.after.flush()
        if self._file.closed:
            self._open()
        with named_errors(self.path, "written"):
            self._truncate_torn()
            before, done, empty = self.size, 0, bytearray()
            try:
                while done < len(self._waiting):
                    done += self._file.write(memoryview(self._waiting)[done:])
                self._waiting = empty
            except BaseException:  # a signal handler may also raise an error
                self._valid_size = before
                with contextlib.suppress(OSError):
                    self._truncate_torn()
                raise

    def cut(self, size: int) -> None:
        """Truncate the file to a size in bytes.

        Raises:
            CheckpointError: If the file cannot be truncated.
        """
        with named_errors(self.path, "written"):
            self._file.truncate(size)

    def replace(self, content: bytes) -> None:
        """Replace the content of the file.

        Raises:
            CheckpointError: If the file cannot be replaced. It then keeps its old content.
        """
        with named_errors(self.path, "written"):
            self._file.close()  # Windows cannot replace an open file
            try:
                atomic_write(self.path, content)
            finally:
                self._open()

    def _truncate_torn(self) -> None:
        if self._valid_size is not None:
            self._file.truncate(self._valid_size)
            self._valid_size = None

    def close(self) -> None:
        """Write the buffered pieces and close the file. If the file cannot be closed, an error is raised."""
        if self._file.closed:
            return
        with self.error_context(os.path.basename(self.path)):
            try:
                self.flush()
            finally:
                with named_errors(self.path, "written"):
                    self._file.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()
