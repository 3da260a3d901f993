"""A run directory has one writer at a time."""

import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.manifest import WriterLock, is_owned_by

_LOGGER = logging.getLogger(__name__)


class _Held(threading.local):
    def __init__(self) -> None:
        self.paths: set[str] = set()


_held = _Held()


@contextlib.contextmanager
def owned(outdir: str) -> Iterator[None]:
    """Keep other writers out of a run directory, which is made if it is missing.

    Whoever has it may take it again, and so may the processes that it starts: they write for it. Where a file system
    knows no locks, the log warns.

    Raises:
        CheckpointError: If another process, or another thread of this one, writes there; it says which, and since when.
    """
    os.makedirs(outdir, exist_ok=True)
    path = os.path.realpath(outdir)
    if path in _held.paths:
        yield
        return
    lock = _lock(path)
    _held.paths.add(path)
    try:
        yield
    finally:
        _held.paths.remove(path)
        if lock is not None:
            lock.release()


def _lock(path: str) -> WriterLock | None:
    """The lock; None for the child of the process that holds it, and where the system has none."""
    parent = multiprocessing.parent_process()
    try:
        return WriterLock(path)
    except CheckpointError as error:
        if error.__cause__ is None:
            if parent is not None and parent.pid is not None and is_owned_by(path, parent.pid):
                return None
            raise
        _LOGGER.warning("%s: two runs there at a time would not be noticed", error)
        return None
