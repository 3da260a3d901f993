"""A worker and the programs that it starts: a session of their own, whose processes end when the worker does."""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait

from pfrl_like.utils.process_start import start_time


def lead_group(lifeline: Connection) -> None:
    """In a worker: begin a session, which Linux ends when the parent has gone.

    Args:
        lifeline: A pipe that the parent holds the other end of, and nothing is ever sent through.
    """
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # it leads one already
            os.setsid()
    if sys.platform == "linux":  # where the kernel kills the session, though C code lets no thread run
        import fcntl

        descriptor = lifeline.fileno()
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if wait([lifeline], 0):  # the parent has gone before
        end_own_group()


def end_own_group() -> None:
    """In a worker whose parent has gone: end, with the programs that it has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def end_groups(workers: Sequence[tuple[int, int]], seconds: float) -> None:
    """End what programs workers that have ended have left: they are told to, and killed after some time.

    Args:
        workers: Number and start time of the process of each.
        seconds: That time.
    """
    if not hasattr(os, "killpg"):
        return
    # A number that another process has by now is that of another group; 0 would be our own.
    ours = [pid for pid, started in workers if pid > 0 and start_time(pid) in (-1, started)]
    left = [pid for pid in ours if _tell(pid, signal.SIGTERM)]
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [pid for pid in left if _tell(pid, 0)]
    for pid in left:
        _tell(pid, signal.SIGKILL)


def _tell(group: int, signum: int) -> bool:
    """Send a signal to a group; False if there is none."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):  # or none of ours
        return False
    return True
