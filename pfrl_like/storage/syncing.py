"""Waiting for the disk: file by file, or once for many, whose content then goes there side by side."""

import contextlib
import os
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import NamedTuple

from pfrl_like.errors import CheckpointError

#: At how many files the disk works at a time, and how many may be open and wait for it.
_SIDE_BY_SIDE, _MOST = 8, 64


class _Waiting(NamedTuple):
    """A file that is to be synced, open until then."""

    descriptor: int
    path: str
    passes: Collection[int]

    def sync(self) -> None:
        with _told(self.path):
            try:
                _sync(*self)
            finally:
                os.close(self.descriptor)


_waiting: ContextVar[list[_Waiting] | None] = ContextVar("waiting", default=None)


def sync(descriptor: int, path: str, passes: Collection[int] = ()) -> None:
    """Make an open file, or the names in an open folder, survive a power cut: now or, `synced_together`, later.

    Args:
        descriptor: The file; it may be closed afterwards.
        path: Its name, for errors.
        passes: Numbers of errors which say that there is no such operation here.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    waiting = _waiting.get()
    if waiting is None:
        _sync(descriptor, path, passes)
        return
    waiting.append(_Waiting(os.dup(descriptor), path, passes))
    if len(waiting) == _MOST:
        catch_up()


def catch_up() -> None:
    """Wait for what is to be synced together so far, since something that it must come before is about to happen.

    Raises:
        CheckpointError: If the disk reports an error.
    """
    waiting = _waiting.get()
    if not waiting:
        return
    batch, waiting[:] = [*waiting], []  # each closes itself from now on
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
    """Wait at the end, once, for all that is synced within: it may get to the disk in any order.

    Only a file that takes the place of another one does not before all that came earlier is there. Within another one
    the outer one's end is what counts.

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


def _sync(descriptor: int, path: str, passes: Collection[int]) -> None:
    with _told(path):
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in passes:
                raise


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(path, f"cannot be written: {error.strerror or error}") from error
