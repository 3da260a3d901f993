"""`Countdown`: a time limit that does not run while this process is stopped."""

import math
import time

#: Seconds that pass at most between two looks at a countdown by a process that runs.
_LONGEST = 1.0


class Countdown:
    """Seconds that are left.

    A process that was stopped (Ctrl-Z, a debugger) and goes on finds that it has waited for others, which were
    stopped, too: of the time between two looks a second counts at most.

    Args:
        seconds: The limit; None is for ever.
    """

    def __init__(self, seconds: float | None) -> None:
        self._left = math.inf if seconds is None else float(seconds)
        self._seen = time.monotonic()

    def left(self) -> float:
        """How many there are; none, or fewer, if the time is over."""
        now = time.monotonic()
        self._left -= min(now - self._seen, _LONGEST)
        self._seen = now
        return self._left
