"""`parallel`: a block in which copies of a `pfrl_like.gpu.Device` move on to the next GPU."""

import contextlib
import os
from collections.abc import Iterator

_open: list[int] = []  # for each block that is open, the process that opened it


@contextlib.contextmanager
def parallel() -> Iterator[None]:
    """A block in which each deep copy of a `Device` takes the next GPU, so that tasks spread over all of them.

    It holds for the whole process: scikit-learn hands out some of its copies in threads of their own. Processes that
    are started within it are outside, so that a task keeps the GPU that it was given.
    """
    _open.append(os.getpid())
    try:
        yield
    finally:
        _open.remove(os.getpid())


def in_parallel() -> bool:
    """Whether this process is within a block of `parallel`."""
    return os.getpid() in _open
