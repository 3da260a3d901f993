"""A directory with one writer."""

import contextlib
import datetime
import os
import socket
from typing import Any

import filelock

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, named_errors
from pfrl_like.storage.json_file import dump_json, read_json
from pfrl_like.utils.process_start import start_time

LOCK_FILES = ("LOCK", "owner.json")
_MAX_BYTES = 1 << 12


class WriterLock:
    """Held by the process that writes into a directory; ends with it, however it ends.

    The lock is one of the operating system, on the file `LOCK`; `owner.json` tells people whose it is. Neither stays
    when it is released; a process that is killed leaves both, which stop nobody. Old NFS servers do not keep such
    locks, so that two machines there are not kept apart.

    Args:
        directory: The directory.

    Raises:
        CheckpointError: If another process, or another object of this one, holds it.
    """

    def __init__(self, directory: str) -> None:
        self._lock = filelock.FileLock(os.path.join(directory, LOCK_FILES[0]), timeout=0, thread_local=False)
        self._owner = owner = os.path.join(directory, LOCK_FILES[1])
        try:
            self._lock.acquire()
        except (filelock.Timeout, RuntimeError):
            raise CheckpointError(directory, f"is being written by {_told(_read(owner))}; it has one writer") from None
        except (OSError, NotImplementedError) as error:
            raise CheckpointError(
                directory, f"cannot be locked: {getattr(error, 'strerror', None) or error}"
            ) from error
        try:
            now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
            owned = {**_identity(os.getpid()), "since": now}
            atomic_write(owner, dump_json(owned, owner, _MAX_BYTES), durable=False)
        except BaseException:
            self._lock.release()
            raise

    def release(self) -> None:
        """Let others write; may be called again.

        Raises:
            CheckpointError: If the system does not unlock it.
        """
        if self._lock.is_locked:
            # `LOCK` goes before it is unlocked: filelock refuses a lock on a file that has been removed meanwhile.
            for path in (self._owner, self._lock.lock_file):
                with contextlib.suppress(OSError):  # Windows removes no open file
                    os.remove(path)
        with named_errors(self._lock.lock_file, "unlocked"):
            self._lock.release()


def is_owned_by(directory: str, pid: int) -> bool:
    """Whether it is this process of this machine that says of itself that it writes into a directory.

    What a killed process has left says it, too: ask only of a directory whose lock is held.
    """
    owner = _read(os.path.join(directory, LOCK_FILES[1]))
    return {name: owner.get(name) for name in _identity(pid)} == _identity(pid)


def _identity(pid: int) -> dict[str, Any]:
    """What tells a process from others, and from later ones of its number."""
    return {"pid": pid, "host": socket.gethostname(), "started": start_time(pid)}


def _read(path: str) -> dict[str, Any]:
    try:
        owner: dict[str, Any] = read_json(path, _MAX_BYTES)
    except CheckpointError:  # nobody's, or whoever has the lock has not said yet who it is
        return {}
    return owner


def _told(owner: dict[str, Any]) -> str:
    return "process {pid} on {host} since {since}".format(**owner) if owner else "another process"
