"""How tests wait, however slow the machine is, and time that passes only where they say so."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

#: Seconds that a test waits for what is to come, of which a loaded machine may need many; what is there ends the wait.
PATIENCE = 120.0


def run_together(members: Iterable[Any]) -> None:
    """Start threads or processes, and wait for the end of each."""
    members = [*members]
    for each in members:
        each.start()
    for each in members:
        each.join(PATIENCE)


def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Whether something comes true."""
    deadline = time.monotonic() + seconds
    while not (came := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.01)
    return came


def is_alive(pid: int) -> bool:
    """Whether there is such a process; a zombie counts."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class OwnTime:
    """A clock in place of the module `time`, which stands still but where a test, or a process that it forks, says so.

    Who does what it should has all the time that it needs, and who hangs is found out at once.
    """

    def __init__(self) -> None:
        self._now = multiprocessing.RawValue("d", 0.0)

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return float(self._now.value)

    def pass_by(self, seconds: float) -> None:
        """Let some seconds pass."""
        self._now.value += seconds

    def hang(self) -> None:
        """Come to no end, while time passes."""
        while True:
            self.pass_by(0.1)
            time.sleep(0.01)
