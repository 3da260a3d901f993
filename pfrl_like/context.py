"""`parallel`, a context manager in which each copy of a `pfrl_like.gpu.Device` takes the next GPU."""

import contextlib
import os
from collections.abc import Iterator

_open: list[int] = []  # the process that opened each block that is still open


@contextlib.contextmanager
def parallel() -> Iterator[None]:
    """Make each deep copy of a `Device` take the next GPU, so that tasks spread over all of them.

    The block holds for all threads of the process, since scikit-learn makes some of its copies in other threads. It
    does not hold in processes that are started within it, so that a task keeps its GPU.
    """
    _open.append(os.getpid())
    try:
        yield
    finally:
        _open.remove(os.getpid())


def in_parallel() -> bool:
    """True if this process is within a block of `parallel`."""
    return os.getpid() in _open
