"""A file of records, each whole or absent.

    8 bytes   b"PFRLJRN1"
    records   8 bytes number of the record, from 0; 4 bytes length; 4 bytes CRC-32 of number, length and content;
              content; all little-endian

A record whose content is `SYNCED` says that whatever the records before it tell of has reached the disk.
"""

import os
import struct
import zlib
from collections.abc import Sequence

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import read_bounded
from pfrl_like.storage.open_file import OpenFile

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
        try:
            super().__init__(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        except OSError as error:
            raise CheckpointError(path, f"cannot be written: {error.strerror or error}") from error
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
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise CheckpointError(self.path, f"cannot be written: {error.strerror or error}") from error

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
