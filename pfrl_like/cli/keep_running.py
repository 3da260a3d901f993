"""`keep-running`: starts a command again when it fails. This process imports nothing heavy."""

import argparse
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Exit statuses after which the command is never started again: success, and the end by Ctrl-C or SIGTERM.
_FINAL = {0, *(128 + signum for signum in _SIGNALS)}
#: Exit status of a command whose arguments are invalid, by convention. A further try would fail, too.
_INVALID = 2
#: Maximum number of seconds between two tries, and number of seconds between two looks for a signal.
_MAX_WAIT, _POLL = 60.0, 0.05


def keep_running(arguments: argparse.Namespace) -> int:
    """Run a command, and start it again after each failure. Return the exit status of the last try.

    Tries are counted in the last `arguments.window` minutes only. Therefore a long run may fail any number of times,
    and a command that fails at once ends soon.
    """
    command = _Command(arguments.program)
    before = {signum: signal.signal(signum, command.forward) for signum in _SIGNALS}
    final = _FINAL | {*(arguments.final or (_INVALID,))}
    failures: list[float] = []
    try:
        while True:
            status, text = command.run()
            if command.signum is not None or status in final:
                _say(f"{text}; it is not started again" if status else text)
                return status
            now = time.monotonic()
            failures = [each for each in failures if now - each < 60 * arguments.window] + [now]
            count = f"{len(failures)} of at most {arguments.tries} tries in {arguments.window:g} minutes failed"
            if len(failures) >= arguments.tries:
                _say(f"{text}; {count}: it is not started again")
                return status
            seconds = min(_MAX_WAIT, arguments.wait * 2.0 ** (len(failures) - 1))
            _say(f"{text}; {count}: it starts again in {seconds:g} s")
            if not command.sleep(seconds):
                return status
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


class _Command:
    """A command whose process gets the signals SIGINT and SIGTERM of this process.

    The process belongs to the process group of this process, so that it can read from the terminal. Ctrl-C therefore
    reaches it twice. The runners of this library ignore the second signal.

    Args:
        program: The words of the command.

    Attributes:
        signum: Number of the first signal. None if there was none.
    """

    def __init__(self, program: Sequence[str]) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.signum: int | None = None

    def forward(self, signum: int, _: Any = None) -> None:
        """Send a signal to the process. It is not started again."""
        _say(f"{signal.Signals(signum).name}: the command is not started again")
        self.signum = self.signum or signum
        if self._process is not None:
            with contextlib.suppress(ValueError):  # Windows has no SIGINT, and sends Ctrl-C to both processes
                self._process.send_signal(signum)

    def run(self) -> tuple[int, str]:
        """Run the command. Return its exit status, which is 128 + n after the signal n, and a text about its end."""
        begun = time.monotonic()
        self._process = subprocess.Popen(self._program)
        if self.signum is not None:  # the signal came while the process was starting
            self._process.send_signal(self.signum)
        code = self._process.wait()
        self._process = None
        end = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        return (128 - code if code < 0 else code), f"the command {end} after {time.monotonic() - begun:.0f} s"

    def sleep(self, seconds: float) -> bool:
        """Wait. Return False if a signal has ended the waiting."""
        end = time.monotonic() + seconds
        while self.signum is None and (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _POLL))
        return self.signum is None


def _say(text: str) -> None:
    print(f"keep-running: {text}", file=sys.stderr, flush=True)
