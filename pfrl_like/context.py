"""`parallel`, a context manager in which each copy of a `Device` uses the next GPU, and `disable_parallel`."""

import contextlib
import os
from collections.abc import Iterator

#: Open contexts, outermost first: process id, True for `parallel`, and an object that tells equal contexts apart.
_open: list[tuple[int, bool, object]] = []


@contextlib.contextmanager
def parallel() -> Iterator[None]:
    """Make each deep copy of a `Device` use the next GPU, so that tasks are distributed over all GPUs.

    The context applies to all threads of the process, because scikit-learn makes some copies in other threads. Child
    processes that are started within the context are not affected: the copies that a task makes there stay on the GPU
    of the task.
    """
    with _opened(True):
        yield


@contextlib.contextmanager
def disable_parallel() -> Iterator[None]:
    """Make deep copies of a `Device` stay on the same GPU again, within a `parallel` context."""
    with _opened(False):
        yield


@contextlib.contextmanager
def _opened(is_parallel: bool) -> Iterator[None]:
    context = (os.getpid(), is_parallel, object())
    _open.append(context)
    try:
        yield
    finally:
        _open.remove(context)


def in_parallel() -> bool:
    """True if the innermost open context of this process is `parallel`."""
    return next((is_parallel for process, is_parallel, _ in reversed(_open) if process == os.getpid()), False)
