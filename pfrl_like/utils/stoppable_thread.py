"""`StoppableThread`: a thread with the event that ends it; and the start time of a process."""

import threading
from pathlib import Path
from typing import Any


class StoppableThread(threading.Thread):
    """Thread whose target returns soon after an event has been set.

    Args:
        stop_event: The event, which the target has to check.
        *args: Positional arguments of `threading.Thread`.
        **kwargs: Keyword arguments of `threading.Thread`.
    """

    def __init__(self, stop_event: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stop_event = stop_event

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self.stop_event.set()

    def is_stopped(self) -> bool:
        """True if the thread has been asked to end."""
        return bool(self.stop_event.is_set())


def start_time(pid: int) -> int:
    """Start of a process, in clock ticks after the boot; distinguishes it from a later process with the same number.

    It is -1 if there is no such process, and 0 where the system does not report it.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1 if Path("/proc/self/stat").exists() else 0
