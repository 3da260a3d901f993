"""`parallel`, a context manager in which each copy of a `pfrl_like.gpu.Device` uses the next GPU."""

import contextlib
import os
from collections.abc import Iterator

_open: list[int] = []  # process ids of the open `parallel` blocks


@contextlib.contextmanager
def parallel() -> Iterator[None]:
    """Make each deep copy of a `Device` use the next GPU, so that tasks are distributed over all GPUs.

    The context applies to all threads of the process, because scikit-learn makes some copies in other threads. Child
    processes that are started within the context are not affected: the copies that a task makes there stay on the GPU
    of the task.
    """
    _open.append(os.getpid())
    try:
        yield
    finally:
        _open.remove(os.getpid())


def in_parallel() -> bool:
    """True if this process is inside a `parallel` context."""
    return os.getpid() in _open
