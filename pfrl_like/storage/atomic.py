"""Atomic replacement of files: every reader, and every restart, finds the old content or the new one, never a part.

The recipe (new temporary file beside the target, write, fsync, rename, fsync of the directory) is the one of
Pillai et al. 2014, "All file systems are not created equal" (OSDI), section 6.
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
from typing import Any, BinaryIO, NamedTuple, cast

from pfrl_like.errors import CheckpointError, PfrlLikeError

#: Number of files synced in parallel, and of files that may be open and wait for it.
_SIDE_BY_SIDE, _MOST = 8, 64


class _Waiting(NamedTuple):
    """An open file that waits to be synced; syncing closes it."""

    descriptor: int
    path: str
    passes: Collection[int]

    def sync(self) -> None:
        with named_errors(self.path, "written"):
            try:
                _sync(self.descriptor, self.passes)
            finally:
                os.close(self.descriptor)


_waiting: ContextVar[list[_Waiting] | None] = ContextVar("waiting", default=None)


def sync(descriptor: int, path: str, passes: Collection[int] = ()) -> None:
    """Make an open file, or the names in an open folder, survive a power cut.

    Within `synced_together` the sync happens later, otherwise at once.

    Args:
        descriptor: The file; it may be closed afterwards.
        path: Its name, for errors.
        passes: Error numbers that are ignored: the system does not offer the operation.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    waiting = _waiting.get()
    if waiting is None:
        _sync(descriptor, passes)
        return
    waiting.append(_Waiting(os.dup(descriptor), path, passes))
    if len(waiting) == _MOST:
        catch_up()


def catch_up() -> None:
    """Sync all files that wait in `synced_together`, before an operation that must come after them.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    waiting = _waiting.get()
    if not waiting:
        return
    batch, waiting[:] = [*waiting], []  # from here on each closes its own file
    running = []
    with ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(batch))) as pool:
        try:
            for each in batch:
                running.append(pool.submit(each.sync))
        except RuntimeError as error:  # no thread can be started
            raise CheckpointError(batch[0].path, f"cannot be written: {error}") from error
    for future in running:
        future.result()


@contextlib.contextmanager
def synced_together() -> Iterator[None]:
    """Delay all syncs inside the block and wait for them once, at its end; they reach the disk in any order.

    One order is kept: a file replaces an existing one only after all earlier syncs. In nested blocks, the end of the
    outermost one counts.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    if _waiting.get() is not None:
        yield
        return
    token = _waiting.set([])
    try:
        yield
        catch_up()
    finally:
        for each in _waiting.get() or ():  # after an error
            with contextlib.suppress(OSError):
                os.close(each.descriptor)
        _waiting.reset(token)


def _sync(descriptor: int, passes: Collection[int]) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in passes:
            raise


#: Flags of `os.open`: links are not followed, other programs do not inherit the file, Windows translates no bytes.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class OpenFile:
    """A file that is open until `close`, or until nothing refers to this object.

    Args:
        path: The file.
        flags: Flags for `os.open`.

    Raises:
        OSError: If it cannot be opened.
    """

    def __init__(self, path: str, flags: int) -> None:
        self.path = path
        self._descriptor = os.open(path, flags | NO_FOLLOW, 0o666)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        self._closing.atexit = False  # at exit the system closes it

    def close(self) -> None:
        """Close the file."""
        self._descriptor = -1
        with contextlib.suppress(OSError):  # important content has been synced before
            self._closing()


#: Content of a file: its bytes, or a function that writes them to a stream (which cannot seek).
Writer = bytes | Callable[[BinaryIO], None]

_CHUNK = 1 << 24
_STALE_SECONDS = 3600.0
# Error numbers of systems and file systems that do not offer the operation.
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.ENOLCK, errno.ENOSYS)


def atomic_write(path: str | os.PathLike[str], writer: Writer, *, durable: bool = True) -> None:
    """Replace the file `path` by new content, or leave it as it is.

    Args:
        path: The file; its directory has to exist. A symbolic link of this name is replaced, not followed.
        writer: Bytes, or a function called with a stream to write to.
        durable: Wait until the content would survive a power cut; without it, it survives only the process.

    Raises:
        CheckpointError: If the content cannot be produced or written; the old file is then still in place, or, if only
            the last fsync failed, the new one.
    """
    target = os.fspath(path)
    with _replacing_alone(target, durable) as temporary:
        _fill(temporary, writer, target if durable else None, None)


def write_file(target: str, writer: Writer, *, durable: bool, digest: Any = None) -> int:
    """Replace a file like `atomic_write`, but without the fsync of its directory, for callers that write several files.

    Args:
        target: The file; its directory has to exist. A symbolic link of this name is replaced, not followed.
        writer: Bytes, or a function called with a stream to write to.
        durable: Wait until the content would survive a power cut; without it, it survives only the process.
        digest: A hash of `hashlib`, updated with the bytes written; None for none.

    Returns:
        The size of the file in bytes.
    """
    with _replacing(target, durable=durable) as temporary:
        return _fill(temporary, writer, target if durable else None, digest)


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give the name of a temporary file that atomically replaces `path` when the block ends.

    Raises:
        CheckpointError: If it cannot be written; an old file of this name is still in place.
    """
    with _replacing_alone(os.fspath(path)) as temporary:
        yield temporary
        sync_file(temporary)


@contextlib.contextmanager
def _replacing(target: str, *, durable: bool = True) -> Iterator[str]:
    """Give the name of a temporary file that replaces `target` at the end, or is removed after an error."""
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".tmp-{name}-{os.getpid()}-{secrets.token_hex(4)}")
    with named_errors(target, "written"):
        try:
            yield temporary
            if durable and os.path.lexists(target):
                catch_up()
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise


@contextlib.contextmanager
def _replacing_alone(target: str, durable: bool = True) -> Iterator[str]:
    """Do the same for a single file: also sync its directory and remove temporary files of killed writers."""
    directory, name = os.path.split(target)
    with _replacing(target, durable=durable) as temporary:
        yield temporary
    if durable:
        sync_directory(directory or ".")
    remove_stale(directory or ".", f".tmp-{name}-")


def make_directory(directory: str) -> None:
    """Make a directory and its missing parents so that they survive a power cut; an existing one is left alone.

    Raises:
        CheckpointError: If it cannot be made.
    """
    new, above = [], os.path.abspath(directory)
    while not os.path.isdir(above) and above != os.path.dirname(above):
        above, name = os.path.split(above)
        new.append(name)
    with named_errors(directory, "made"):
        os.makedirs(directory, exist_ok=True)
    with synced_together():
        for name in reversed(new):
            sync_directory(above)
            above = os.path.join(above, name)


def sync_file(path: str) -> None:
    """Make the content of a file survive a power cut.

    Raises:
        CheckpointError: If it cannot be opened, or the disk reports an error.
    """
    _sync_path(path, os.O_RDWR | NO_FOLLOW)


def sync_directory(directory: str) -> None:
    """Make the names in a directory survive a power cut.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    if os.name != "nt":  # a directory cannot be opened there
        _sync_path(directory, os.O_RDONLY, _NOT_OFFERED)


def _sync_path(path: str, flags: int, passes: Collection[int] = ()) -> None:
    with named_errors(path, "written"):
        descriptor = os.open(path, flags)
        try:
            sync(descriptor, path, passes)
        finally:
            os.close(descriptor)


def remove_stale(directory: str, prefix: str) -> None:
    """Remove temporary files and directories of killed writers, but none that is still being written.

    A file is removed once it is an hour old. A directory is locked by its writer: it is removed once nobody holds the
    lock and it is an hour old or its process has ended.

    Args:
        directory: The directory that contains them.
        prefix: Beginning of their names, followed by a process id and eight hexadecimal digits.
    """
    ours = re.compile(rf"{re.escape(prefix)}[0-9]+-[0-9a-f]{{8}}")
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if ours.fullmatch(entry.name) and not entry.is_symlink():
                with contextlib.suppress(OSError, CheckpointError):  # another process may clean at the same time
                    is_old = time.time() - entry.stat(follow_symlinks=False).st_mtime >= _STALE_SECONDS
                    if not entry.is_dir():
                        if is_old:
                            os.unlink(entry.path)
                    elif is_old or _is_gone(int(entry.name.rsplit("-", 2)[1])):
                        with directory_lock(entry.path, timeout=0.0):  # another machine may use the same process id
                            shutil.rmtree(entry.path)


def _is_gone(pid: int) -> bool:
    """True if no process of this machine has this id; False where that cannot be determined."""
    if os.name == "nt":  # os.kill would end the process there
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    except OverflowError:
        return True
    return False


def open_regular(path: str) -> BinaryIO:
    """Open a regular file for reading; links, pipes and devices are refused.

    Raises:
        CheckpointError: If it does not exist, is something else, or cannot be opened.
    """
    with named_errors(path, "read"):
        if os.path.islink(path):
            raise CheckpointError(path, "is a symbolic link, which is not followed; copy the file itself (cp -L)")
        # Without O_NONBLOCK the opening of a pipe would wait for its other end.
        descriptor = os.open(path, os.O_RDONLY | NO_FOLLOW | getattr(os, "O_NONBLOCK", 0))
        try:
            refuse_irregular(descriptor, path)
        except BaseException:
            os.close(descriptor)
            raise
        return os.fdopen(descriptor, "rb")


class BudgetError(ValueError):
    """Raised when a file needs more memory than it may take."""


@contextlib.contextmanager
def refused(path: object, reason: str) -> Iterator[None]:
    """Turn any error in reading an untrusted file into a `CheckpointError` that begins with a reason.

    A `CheckpointError` stays as it is. A `BudgetError` keeps its own message, without the reason.

    Raises:
        CheckpointError: If anything goes wrong.
    """
    try:
        yield
    except CheckpointError:
        raise
    except BudgetError as error:
        raise CheckpointError(path, str(error)) from error
    except Exception as error:
        raise CheckpointError(path, f"{reason}: {str(error) or type(error).__name__}") from error


def refuse_irregular(descriptor: int, path: str) -> None:
    """Refuse an open file that is not a regular one.

    Raises:
        CheckpointError: If it is a directory, a pipe or a device.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise CheckpointError(path, "is not a regular file")


def names_in(directory: str) -> list[str]:
    """The names in a directory.

    Raises:
        CheckpointError: If it cannot be read.
    """
    with named_errors(directory, "read"):
        return sorted(os.listdir(directory))


def read_bounded(path: str, limit: int) -> bytes:
    """Read a whole plain file of at most `limit` bytes.

    Raises:
        CheckpointError: If it is longer, or cannot be read.
    """
    with open_regular(path) as file, named_errors(path, "read"):
        too_long = os.fstat(file.fileno()).st_size > limit
        content = b"" if too_long else file.read(limit + 1)
    if too_long or len(content) > limit:
        raise CheckpointError(path, f"is longer than the {limit} bytes that such a file may have")
    return content


@contextlib.contextmanager
def directory_lock(directory: str, timeout: float = 60.0) -> Iterator[None]:
    """Lock a directory against saves by other processes and threads, where the system supports it (POSIX, `flock`).

    The lock leaves no file. It ends with the block, also in processes that were forked inside the block.

    Raises:
        CheckpointError: If another process still holds it after `timeout` seconds.
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
                    reason = f"has been locked for {timeout} s by another process that is saving there"
                    raise CheckpointError(directory, reason) from None
                time.sleep(0.01)
            except OSError as error:  # some network file systems lock no directories: continue without, as on Windows
                if error.errno not in _NOT_OFFERED:
                    raise CheckpointError(directory, f"cannot be locked: {error}") from error
                break
        yield
    finally:
        with contextlib.suppress(OSError):  # closing alone would leave the lock with forked processes
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        with contextlib.suppress(OSError):  # nothing was written through this descriptor
            os.close(descriptor)


def _fill(temporary: str, writer: Writer, synced_as: str | None, digest: Any) -> int:
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW, 0o666)
    try:
        stream = _Stream(descriptor, digest)
        if isinstance(writer, bytes):
            stream.write(writer)
        else:
            writer(cast(BinaryIO, stream))
        if os.fstat(descriptor).st_size != stream.size:
            raise OSError(errno.EIO, f"{stream.size} bytes were written, {os.fstat(descriptor).st_size} arrived")
        if synced_as is not None:
            sync(descriptor, synced_as)
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    os.close(descriptor)  # its error is raised: some file systems report a failed write only here
    return stream.size


class _Stream(io.RawIOBase):
    """Unbuffered stream to the file being written. A write is complete or raises."""

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
    """Turn any error into a `CheckpointError` that names the file; KeyboardInterrupt passes unchanged."""
    handled = sys.exception()
    try:
        yield
    except PfrlLikeError:
        raise
    except Exception as error:
        cause = error.__context__
        while cause is not None and cause is not handled:  # torch raises an error of its own for a KeyboardInterrupt
            if not isinstance(cause, Exception):
                raise cause from None
            cause = cause.__context__
        if isinstance(error, OSError):
            raise CheckpointError(path, f"cannot be {verb}: {error.strerror or error}") from error
        # on a full disk torch reports a file position; the OSError behind it is clearer
        told = error.__context__ if isinstance(error.__context__, OSError) else error
        raise CheckpointError(path, f"cannot be {verb}: {type(told).__name__}: {told}") from error
