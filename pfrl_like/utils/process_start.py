"""When a process started."""

from pathlib import Path


def start_time(pid: int) -> int:
    """When a process started, in clock ticks after the boot; tells a process from a later one of the same number.

    It is -1 if there is no such process, and 0 where the system does not tell.
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return -1 if Path("/proc/self/stat").exists() else 0
