"""Directory of a state that grows: values in memory-mapped files, a state that refers to their rows, and a journal.

    LOCK, owner.json           the process that writes
    meta.json                  the only commit point: which of the files below belong together
    state-<n>.bin              the state when generation n began, a file of arrays
    journal-<n>.bin            the records since then
    columns-<token>-*.bin      the values, memory-mapped

A generation begins in three steps: its values and state are written to the disk, `meta.json` is replaced, and files
that `meta.json` does not name are removed. A caller of `LogDirectory` must follow two rules. A row of values is written
before the record that refers to it. A row is overwritten only after a `sync`, when the state on the disk no longer
refers to the row.
"""

import contextlib
import errno
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic
from pfrl_like.storage.arrays import read_arrays, write_arrays
from pfrl_like.storage.journal import Journal, read_journal
from pfrl_like.storage.json_file import dump_json, read_json
from pfrl_like.storage.manifest import LOCK_FILES, WriterLock

_ZEROS = bytes(1 << 20)
META = "meta.json"
_VERSION = 1
_MAX_META = 1 << 20
_OWN = re.compile(r"(state|journal)-[0-9]{1,18}\.bin|columns-[0-9a-f]{8}-[a-z0-9-]{1,64}\.bin|\.tmp-.*")
_TOKEN = re.compile(r"[0-9a-f]{8}")
_ATTEMPTS = 3


class MappedFile(atomic.OpenFile):
    """A memory-mapped file of values in rows, written through the arrays that `map` returns.

    Disk space is allocated before it is mapped. Therefore a full disk raises an error. Without this, a signal would
    kill the process.

    Args:
        path: Path of the file. It is created if it does not exist.
        grows: True if the file may be created and may grow.

    Attributes:
        grows: True if the file may grow.

    Raises:
        CheckpointError: If the file cannot be opened, or is not a regular file.
    """

    def __init__(self, path: str, grows: bool = True) -> None:
        self.grows = grows
        self._map: mmap.mmap | None = None
        with atomic.named_errors(path, "opened"):
            super().__init__(path, os.O_RDWR | (os.O_CREAT if grows else 0))
            atomic.check_regular(self._descriptor, path)

    @property
    def size(self) -> int:
        """Size of the file in bytes.

        Raises:
            CheckpointError: If the system reports an error.
        """
        with atomic.named_errors(self.path, "read"):
            return os.fstat(self._descriptor).st_size

    def map(self, size: int) -> NDArray[np.uint8]:
        """Map the first `size` bytes to a new array, shape [size]. A smaller file grows.

        Raises:
            CheckpointError: If the disk is full, or the file may not grow.
        """
        if size > self.size and not self.grows:
            raise CheckpointError(self.path, f"has {self.size} bytes, expected at least {size}: it is truncated")
        try:
            if size > self.size:
                self._grow(size)
            self._map = mmap.mmap(self._descriptor, size)
        except (OSError, ValueError) as error:
            raise CheckpointError(self.path, f"cannot be mapped with {size} bytes: {error}") from error
        return np.frombuffer(self._map, np.uint8)

    def sync(self) -> None:
        """Wait until the written values are on the disk.

        Raises:
            CheckpointError: If the disk reports an error.
        """
        with atomic.named_errors(self.path, "written"):
            if self._map is not None:
                self._map.flush()
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file. Arrays over the file stay valid."""
        self._map = None
        super().close()

    def _grow(self, size: int) -> None:
        before = self.size
        try:
            try:
                os.posix_fallocate(self._descriptor, before, size - before)
            except (OSError, AttributeError) as error:  # not every system and file system supports it
                if getattr(error, "errno", errno.ENOSYS) not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                os.lseek(self._descriptor, before, os.SEEK_SET)
                while self.size < size:
                    os.write(self._descriptor, _ZEROS[: size - self.size])
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise


class LoggedState(NamedTuple):
    """Content of a directory: a state, the records after it, and the number of records that were synced."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    records: list[bytes]
    synced: int


class ColumnFiles:
    """The files of values of one generation.

    If `token` is given, the files exist. Files are neither created nor enlarged before `grow` is called, because the
    requested sizes come from a state file that may be damaged.
    """

    def __init__(self, directory: str, token: str | None = None) -> None:
        self.token = token or secrets.token_hex(4)
        self._directory = directory
        self._grows = token is None
        self._files: dict[str, MappedFile] = {}

    def grow(self, grows: bool = True) -> None:
        """Allow (or forbid) that files grow and that new files are created."""
        self._grows = grows
        for file in self._files.values():
            file.grows = grows

    def open(self, name: str) -> MappedFile:
        """Return the file with this name. It is created if it does not exist."""
        if name not in self._files:
            path = os.path.join(self._directory, f"columns-{self.token}-{name}.bin")
            self._files[name] = MappedFile(path, self._grows)
        return self._files[name]

    def sync(self) -> None:
        """Wait until the values are on the disk."""
        for file in self._files.values():
            file.sync()

    def close(self) -> None:
        """Close the files. Arrays over the files stay valid."""
        for file in self._files.values():
            file.close()
        self._files.clear()


class LogDirectory:
    """A directory of this format, locked for writing until `close` is called.

    Args:
        path: Path of the directory. It is created if it does not exist.
        properties: Properties that must be the same each time the directory is opened, as JSON values. They are stored
            in `meta.json`.

    Raises:
        CheckpointError: If the directory contains other files, or if another process writes to it.
    """

    def __init__(self, path: str, properties: Mapping[str, Any]) -> None:
        self.path = path
        self.properties = dict(properties)
        self.count = 0  # number of records in the journal
        self.saves: list[str] = []  # files outside the directory that refer to rows of the values
        self._journal: Any = None  # this and _files are None before a generation begins
        self._generation = 0
        self._files: Any = None
        atomic.make_directory(path)
        known = {META, *LOCK_FILES}
        if strange := [name for name in atomic.names_in(path) if name not in known and not _OWN.fullmatch(name)]:
            reason = f"contains {strange[0]!r}, which is not a file of a persistent buffer; use a new directory"
            raise CheckpointError(path, reason)
        self._lock = WriterLock(path)

    # Reading

    @property
    def is_new(self) -> bool:
        """True if nothing was committed in this directory."""
        return not os.path.lexists(os.path.join(self.path, META))

    def read(self) -> tuple[LoggedState, ColumnFiles]:
        """Return the last committed state with the records after it, and the files of values of this state.

        Raises:
            CheckpointError: If the state is damaged, or has different properties.
        """
        meta = read_meta(self.path, self.properties)
        self._generation, self.saves = meta["generation"], meta.get("saves", [])
        header, arrays = read_arrays(self._name("state", self._generation))
        records, synced = read_journal(self._name("journal", self._generation))
        return LoggedState(header, arrays, records, synced), ColumnFiles(self.path, meta["columns"])

    def check_no_columns(self) -> None:
        """Raise an error if a directory without a `meta.json` contains files of values.

        Raises:
            CheckpointError: If there are files of values.
        """
        if any(name.startswith("columns-") for name in atomic.names_in(self.path)):
            raise CheckpointError(self.path, f"has files of values but no {META}; use another directory")

    def copy(self, source: str) -> None:
        """Copy the content of another directory into this new directory. The other directory is not changed.

        Raises:
            CheckpointError: If the source does not have this format, has different properties, or cannot be copied.
        """
        for attempt in range(_ATTEMPTS):
            meta = read_meta(source, self.properties)
            names = [f"state-{meta['generation']}.bin", f"journal-{meta['generation']}.bin"]
            names += [name for name in atomic.names_in(source) if name.startswith(f"columns-{meta['columns']}-")]
            try:
                for name in names:
                    shutil.copyfile(os.path.join(source, name), os.path.join(self.path, name), follow_symlinks=False)
            except FileNotFoundError as error:  # a writer has begun a new generation
                if attempt + 1 < _ATTEMPTS:
                    continue
                raise CheckpointError(source, f"cannot be copied: {error.strerror}: {error.filename}") from error
            except OSError as error:
                raise CheckpointError(source, f"cannot be copied: {error}") from error
            break
        self._write_meta(meta["generation"], meta["columns"])

    # Writing

    def begin(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], files: ColumnFiles) -> None:
        """Begin a generation with this state, and remove the files of earlier generations.

        Raises:
            CheckpointError: If a file cannot be written. The previous generation is then unchanged.
        """
        generation = self._generation + 1
        files.sync()
        write_arrays(self._name("state", generation), header, arrays)
        journal = Journal(self._name("journal", generation))
        journal.mark()
        journal.sync()
        atomic.sync_directory(self.path)
        self._write_meta(generation, files.token)
        if self._journal is not None:
            self._journal.close()
        if self._files is not None and self._files is not files:
            self._files.close()
        self._journal, self._files, self._generation, self.count = journal, files, generation, 0
        self.clean(f"columns-{files.token}-")

    def append(self, records: Sequence[bytes]) -> bool:
        """Write records. After this call, the end of the process does not destroy them.

        Returns:
            True if the records fit into the journal. Otherwise nothing is written, and a new generation must begin.

        Raises:
            CheckpointError: If the records cannot be written.
        """
        fits: bool = self._journal.append(records)
        self.count += len(records) if fits else 0
        return fits

    def sync(self) -> None:
        """Wait until values and records are on the disk.

        Raises:
            CheckpointError: If the disk reports an error.
        """
        self._files.sync()
        self._journal.sync()
        self._journal.mark()  # not earlier: SYNCED must not be on the disk without the earlier records
        self._journal.sync()

    def clean(self, columns: str) -> None:
        """Remove files of other generations, except files of values with the prefix `columns`."""
        keep = {f"state-{self._generation}.bin", f"journal-{self._generation}.bin"}
        with contextlib.suppress(CheckpointError):
            for name in atomic.names_in(self.path):
                if _OWN.fullmatch(name) and name not in keep and not name.startswith(columns):
                    with contextlib.suppress(OSError):
                        os.unlink(os.path.join(self.path, name))

    def clear(self) -> None:
        """Remove the files that `copy` created."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.path, META))
        self._generation = -1
        self.clean("no column")
        self._generation = 0

    def close(self) -> None:
        """Close the files and release the lock."""
        for part in (self._journal, self._files):
            if part is not None:
                part.close()
        self._journal = self._files = None
        self._lock.release()

    def _name(self, kind: str, generation: int) -> str:
        return os.path.join(self.path, f"{kind}-{generation}.bin")

    def set_saves(self, saves: Sequence[str]) -> None:
        """Store the names of files outside the directory that refer to rows of the values.

        Raises:
            CheckpointError: If the names cannot be written. The previous names are then unchanged.
        """
        before, self.saves = self.saves, list(saves)
        try:
            self._write_meta(self._generation, self._files.token)
        except BaseException:
            self.saves = before
            raise

    def _write_meta(self, generation: int, token: str) -> None:
        meta = {"format_version": _VERSION, **self.properties, "generation": generation, "columns": token}
        meta["saves"] = self.saves
        target = os.path.join(self.path, META)
        content = dump_json(meta, target)
        if len(content) > _MAX_META:
            raise CheckpointError(target, f"cannot store the names of {len(self.saves)} saves: remove old saves")
        atomic.atomic_write(target, content)


def read_meta(path: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """Read and check `meta.json` of a directory.

    Raises:
        CheckpointError: If the file is missing, damaged, of a different version, or has different properties.
    """
    name = os.path.join(path, META)
    meta = read_json(name, _MAX_META)
    if meta.get("format_version") != _VERSION:
        raise CheckpointError(name, f"has format version {meta.get('format_version')!r}, expected {_VERSION}")
    for key, mine in properties.items():
        if meta.get(key) != mine:
            raise CheckpointError(path, f"has {key} {meta.get(key)!r}, expected {mine!r}")
    generation, token, saves = meta.get("generation"), meta.get("columns"), meta.get("saves", [])
    valid = {
        "generation": type(generation) is int and 0 <= generation < 1 << 60,
        "columns": type(token) is str and _TOKEN.fullmatch(token),
        "saves": type(saves) is list and all(type(save) is str for save in saves),
    }
    if wrong := [key for key, is_valid in valid.items() if not is_valid]:
        raise CheckpointError(name, f"is damaged: its {wrong[0]} is {meta.get(wrong[0])!r}")
    return meta
