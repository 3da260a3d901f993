"""Atomic replacement of files: a reader finds the whole old or the whole new content, even after a crash.

The procedure is described by Pillai et al. 2014, "All file systems are not created equal" (OSDI), section 6: write a
new temporary file in the same directory, fsync it, rename it, fsync the directory.
"""

import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
import sys
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, BinaryIO, cast

from pfrl_like.errors import CheckpointError, PfrlLikeError
from pfrl_like.utils.stoppable_thread import start_time

#: `_SYNC_THREADS`: number of files that are synced in parallel. `_MAX_PENDING`: maximum number of open files that wait
#: for a sync.
_SYNC_THREADS, _MAX_PENDING = 8, 64


#: Open files that wait to be synced: arguments of `_sync_and_close`.
_pending: ContextVar[list[tuple[int, str, Collection[int]]] | None] = ContextVar("pending", default=None)


def sync(descriptor: int, path: str, ignored_errnos: Collection[int] = ()) -> None:
    """Sync an open file, or the entries of an open directory, to the disk.

    A power failure does not destroy synced data.

    Inside the context `synced_together` the file is synced later. Otherwise it is synced immediately.

    Args:
        descriptor: Descriptor of the file or directory. The caller may close it after this call.
        path: Name of the file, for error messages.
        ignored_errnos: Error numbers of `fsync` that are ignored. They mean that the system does not support `fsync`
            for this file.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    pending = _pending.get()
    if pending is None:
        _sync(descriptor, ignored_errnos)
        return
    pending.append((os.dup(descriptor), path, ignored_errnos))
    if len(pending) == _MAX_PENDING:
        sync_pending()


def sync_pending() -> None:
    """Sync immediately all files that wait in `synced_together`, because the next operation requires them on the disk.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    pending = _pending.get()
    if not pending:
        return
    batch, pending[:] = [*pending], []  # from here on, `_sync_and_close` closes the files
    with ThreadPoolExecutor(min(_SYNC_THREADS, len(batch))) as pool:
        try:
            running = [pool.submit(_sync_and_close, *each) for each in batch]
        except RuntimeError as error:  # no thread can be started
            raise CheckpointError(batch[0][1], f"cannot be written: {error}") from error
    for future in running:
        future.result()


@contextlib.contextmanager
def synced_together() -> Iterator[None]:
    """Delay all syncs inside the context until its end. The files then reach the disk in any order.

    There is one exception: before a file replaces an existing file, all earlier syncs are finished. In nested contexts,
    the files are synced at the end of the outermost context.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    if _pending.get() is not None:
        yield
        return
    token = _pending.set([])
    try:
        yield
        sync_pending()
    finally:
        for descriptor, *_ in _pending.get() or ():  # files remain only after an error
            with contextlib.suppress(OSError):
                os.close(descriptor)
        _pending.reset(token)


def _sync_and_close(descriptor: int, path: str, ignored_errnos: Collection[int]) -> None:
    with named_errors(path, "written"):
        try:
            _sync(descriptor, ignored_errnos)
        finally:
            os.close(descriptor)


def _sync(descriptor: int, ignored_errnos: Collection[int]) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in ignored_errnos:
            raise


#: Flags of `os.open`: do not follow links, do not pass the file to child processes, do not translate line ends.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class OpenFile:
    """A file that is open until `close` is called or this object is deleted.

    Args:
        path: The file.
        flags: Flags for `os.open`.

    Raises:
        OSError: If the file cannot be opened.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | NO_FOLLOW, 0o666)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        self._closing.atexit = False  # when the process exits, the system closes the file

    def close(self) -> None:
        """Close the file."""
        self._descriptor = -1
        with contextlib.suppress(OSError):  # important content was synced earlier
            self._closing()


#: Content of a file: its bytes, or a function that writes them to a stream (which cannot seek).
Writer = bytes | Callable[[BinaryIO], None]

_CHUNK = 1 << 24
_STALE_SECONDS = 3600.0
# Error numbers of `fsync` and `flock` if the system or file system does not support them for directories.
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOLCK, errno.ENOSYS)


def atomic_write(path: str | os.PathLike[str], writer: Writer, *, durable: bool = True) -> None:
    """Replace the file `path` by new content, or leave the file unchanged.

    Args:
        path: Path of the file. Its directory must exist. A symbolic link with this name is replaced, not followed.
        writer: Bytes, or a function called with a stream to write to.
        durable: True to wait until the content is on the disk. If False, the content survives the end of the process,
            but a power failure may destroy it.

    Raises:
        CheckpointError: If the content cannot be produced or written. The file then has its old content, or, if only
            the last fsync failed, the new content.
    """
    target = os.fspath(path)
    write_file(target, writer, durable=durable)
    _finish(target, durable)


def write_file(target: str, writer: Writer, *, durable: bool, digest: Any = None) -> int:
    """Replace a file like `atomic_write`, but do not sync its directory. Callers that write several files sync it once.

    Args:
        target: Path of the file. Its directory must exist. A symbolic link with this name is replaced, not followed.
        writer: Bytes, or a function called with a stream to write to.
        durable: True to wait until the content is on the disk. If False, the content survives the end of the process,
            but a power failure may destroy it.
        digest: A hash of `hashlib` that is updated with the written bytes. If None, no hash is updated.

    Returns:
        The size of the file in bytes.
    """
    with _replacing(target, durable=durable) as temporary:
        return _fill(temporary, writer, target if durable else None, digest)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield the name of a temporary file that atomically replaces `path` at the end of the context.

    Raises:
        CheckpointError: If the file cannot be written. An existing file of this name is then unchanged.
    """
    target = os.fspath(path)
    with _replacing(target) as temporary:
        yield temporary
        sync_file(temporary)
    _finish(target)


@contextlib.contextmanager
def _replacing(target: str, *, durable: bool = True) -> Iterator[str]:
    """Yield the name of a temporary file that replaces `target` at the end, or is removed after an error."""
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".tmp-{name}-{os.getpid()}-{secrets.token_hex(4)}")
    with named_errors(target, "written"):
        try:
            yield temporary
            if durable and os.path.lexists(target):
                sync_pending()
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


def _finish(target: str, durable: bool = True) -> None:
    """After a file was replaced, sync its directory and remove temporary files of killed writers."""
    directory, name = os.path.split(target)
    if durable:
        sync_directory(directory or ".")
    remove_stale(directory or ".", f".tmp-{name}-")


def make_directory(directory: str) -> None:
    """Create a directory and its missing parents, and sync them to the disk.

    Raises:
        CheckpointError: If the directory cannot be created.
    """
    new, above = [], os.path.abspath(directory)
    while not os.path.isdir(above) and above != os.path.dirname(above):
        above, name = os.path.split(above)
        new.append(name)
    with named_errors(directory, "created"):
        os.makedirs(directory, exist_ok=True)
    with synced_together():
        for name in reversed(new):
            sync_directory(above)
            above = os.path.join(above, name)


def sync_file(path: str) -> None:
    """Sync the content of a file to the disk.

    Raises:
        CheckpointError: If the file cannot be opened, or the disk reports an error.
    """
    _sync_path(path, os.O_RDWR | NO_FOLLOW)


def sync_directory(directory: str) -> None:
    """Sync the entries of a directory to the disk.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    if os.name != "nt":  # Windows cannot open a directory
        _sync_path(directory, os.O_RDONLY, _NOT_OFFERED)


def _sync_path(path: str, flags: int, ignored_errnos: Collection[int] = ()) -> None:
    with named_errors(path, "written"):
        descriptor = os.open(path, flags)
        try:
            sync(descriptor, path, ignored_errnos)
        finally:
            os.close(descriptor)


def remove_stale(directory: str, prefix: str) -> None:
    """Remove temporary files and directories of killed writers, but not those that are still being written.

    A file is removed if it is older than an hour. The writer of a directory locks it. A directory whose lock is free is
    removed if it is older than an hour, or if its process is known to have ended.

    Args:
        directory: The directory that contains the temporary files.
        prefix: First part of the names. A process id and eight hexadecimal digits follow.
    """
    ours = re.compile(rf"{re.escape(prefix)}[0-9]+-[0-9a-f]{{8}}")
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and not entry.is_symlink():
                with contextlib.suppress(OSError, CheckpointError):  # another process may remove it at the same time
                    is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime >= _STALE_SECONDS
                    if not entry.is_dir():
                        if is_old:
                            os.unlink(entry.path)
                    elif is_old or start_time(int(entry.name.rsplit("-", 2)[1])) == -1:
                        with save_lock(entry.path, timeout=0.0):  # another machine may use the same process id
                            shutil.rmtree(entry.path)


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading. Links, pipes and devices are rejected.

    Raises:
        CheckpointError: If the file does not exist, is not a regular file, or cannot be opened.
    """
    with named_errors(path, "read"):
        if os.path.islink(path):
            raise CheckpointError(path, "is a symbolic link; replace it by a copy of the file (cp -L)")
        # Without O_NONBLOCK, opening a pipe would wait until its other end is open.
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
        try:
            check_regular(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")


class BudgetError(ValueError):
    """Raised if a file needs more memory than its limit."""


@contextlib.contextmanager
def read_errors(path: object, reason: str) -> Iterator[None]:
    """Convert any error in reading an untrusted file to a `CheckpointError` that begins with `reason`.

    A `CheckpointError` is raised unchanged. A `BudgetError` keeps its own message, without the reason.

    Raises:
        CheckpointError: If an error occurs.
    """
    try:
        yield
    except CheckpointError:
        raise
    except BudgetError as error:
        raise CheckpointError(path, str(error)) from error
    except Exception as error:
        raise CheckpointError(path, f"{reason}: {str(error) or type(error).__name__}") from error


def check_regular(descriptor: int, path: str) -> None:
    """Raise an error if an open file is not a regular file.

    Raises:
        CheckpointError: If it is a directory, a pipe or a device.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise CheckpointError(path, "is not a regular file")


def names_in(directory: str) -> list[str]:
    """Return the names in a directory, sorted.

    Raises:
        CheckpointError: If the directory cannot be read.
    """
    with named_errors(directory, "read"):
        return sorted(os.listdir(directory))


def read_bounded(path: str, limit: int) -> bytes:
    """Read a whole regular file of at most `limit` bytes.

    Raises:
        CheckpointError: If the file is longer, or cannot be read.
    """
    with open_regular(path) as file, named_errors(path, "read"):
        too_long = os.fstat(file.fileno()).st_size > limit
        content = b"" if too_long else file.read(limit + 1)
    if too_long or len(content) > limit:
        raise CheckpointError(path, f"is longer than {limit} bytes, the limit for this kind of file")
    return content


@contextlib.contextmanager
def save_lock(directory: str, timeout: float = 60.0) -> Iterator[None]:
    """Lock a directory, so that no other process or thread saves into it. Without `flock` (POSIX), do nothing.

    The lock creates no file. The lock is released at the end of the context, even if a process that was forked inside
    the context is still running.

    Raises:
        CheckpointError: If another process still holds the lock after `timeout` seconds.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    with named_errors(directory, "locked"):
        descriptor = os.open(directory, os.O_RDONLY)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    reason = f"has been locked for {timeout} s by another process that saves into it"
                    raise CheckpointError(directory, reason) from None
                time.sleep(0.01)
            except OSError as error:  # some network file systems cannot lock directories
                if error.errno not in _NOT_OFFERED:
                    raise CheckpointError(directory, f"cannot be locked: {error}") from error
                break
        yield
    finally:
        # Unlock explicitly: closing the descriptor does not release a lock that a forked process shares.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        # An error here loses no data, because nothing was written through this descriptor.
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _fill(temporary: str, writer: Writer, sync_path: str | None, digest: Any) -> int:
    """Write a temporary file and return its size. Sync it, unless `sync_path` (its name in errors) is None."""
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
    try:
        stream = _Stream(descriptor, digest)
        if isinstance(writer, bytes):
            stream.write(writer)
        else:
            writer(cast(BinaryIO, stream))
        if os.fstat(descriptor).st_size != stream.size:
            raise OSError(errno.EIO, f"{stream.size} bytes were written, the file has {os.fstat(descriptor).st_size}")
        if sync_path is not None:
            sync(descriptor, sync_path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    os.close(descriptor)  # errors are raised: some file systems report a failed write only here
    return stream.size


class _Stream(io.RawIOBase):
    """Unbuffered stream to the file that is written. A write is complete or raises an error."""

    def __init__(self, descriptor: int, digest: Any) -> None:
        self._descriptor, self._digest = descriptor, digest
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._digest is not None:
            self._digest.update(view)
        done = 0
        while done < len(view):
            done += os.write(self._descriptor, view[done : done + _CHUNK])
        self.size += done
        return done


@contextlib.contextmanager
def named_errors(path: str, verb: str) -> Iterator[None]:
    """Convert any error except a KeyboardInterrupt to a `CheckpointError` that contains the file's name."""
    handled = sys.exception()
    try:
        yield
    except PfrlLikeError:
        raise
    except Exception as error:
        cause = error.__context__
        while cause is not None and cause is not handled:  # torch may replace a KeyboardInterrupt by its own error
            if not isinstance(cause, Exception):
                raise cause from None
            cause = cause.__context__
        if isinstance(error, OSError):
            raise CheckpointError(path, f"cannot be {verb}: {error.strerror or error}") from error
        # If the disk is full, torch reports a file position. The underlying OSError is clearer.
        clearer = error.__context__ if isinstance(error.__context__, OSError) else error
        raise CheckpointError(path, f"cannot be {verb}: {type(clearer).__name__}: {clearer}") from error
