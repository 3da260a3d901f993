"""`StoppableThread`, a thread that an event stops, and `start_time`, the start time of a process."""

import threading
from pathlib import Path
from typing import Any


class StoppableThread(threading.Thread):
    """Thread with an event that stops it. The target must return soon after the event is set.

    Args:
        stop_event: The event. The target must check it.
        *args: Positional arguments of `threading.Thread`.
        **kwargs: Keyword arguments of `threading.Thread`.
    """

    def __init__(self, stop_event: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stop_event = stop_event

    def stop(self) -> None:
        """Set the event. Call `join` to wait until the thread has ended."""
        self.stop_event.set()

    def is_stopped(self) -> bool:
        """True if the event is set."""
        return bool(self.stop_event.is_set())


def start_time(pid: int) -> int:
    """Return the start time of a process, in clock ticks since boot.

    If the system reuses a process id, the new process has a different start time. Return -1 if the process does not
    exist, and 0 if the system does not report the start time.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1 if Path("/proc/self/stat").exists() else 0
