"""A lock on this machine's quiet: while a measurement holds it, `missing_scores.py` stops what it runs.

    python benchmarks/measurement_lock.py make test      # measures how long a command takes; anything may hold the lock

It is the operating system's lock on a file, so that it ends with its process, however that ends. Measurements share it:
one may start another.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing steps aside
    fcntl = None  # type: ignore[assignment]

PATH = Path(tempfile.gettempdir()) / "pfrl_like-measurement.lock"
#: Seconds between two looks at the lock; a measurement begins after twice as long.
INTERVAL = 0.2


@contextlib.contextmanager
def measuring() -> Iterator[None]:
    """Hold the lock, and begin when those that step aside have done so; also a decorator."""
    if fcntl is None:
        yield
        return
    descriptor = os.open(PATH, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        time.sleep(2 * INTERVAL)
        yield
    finally:
        os.close(descriptor)


def is_measuring() -> bool:
    """True if a process that lives holds the lock."""
    if fcntl is None or not PATH.exists():
        return False
    descriptor = os.open(PATH, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 2
    if shutil.which(sys.argv[1]) is None:
        print(f"{sys.argv[1]}: there is no such command")
        return 127
    with measuring():
        return subprocess.call(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
