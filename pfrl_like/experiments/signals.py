"""Handling of SIGINT and SIGTERM. Training ends after the current step, so that a complete state can be saved."""

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

from pfrl_like.runs.loop import Clock, error_of
from pfrl_like.runs.loop import Terminated as Terminated

#: `PATIENCE`: seconds from a signal until the current step is interrupted. `ONCE`: seconds after a signal in which
#: another signal is ignored, because the terminal and a parent process may both send the signal.
PATIENCE, ONCE = 1.0, 0.5


def outcome_of(error: BaseException, t: int) -> str:
    """Return how a signal ended a run; empty if the error is not that of a signal.

    Args:
        error: Error that ended the run.
        t: Step at which the run ended.
    """
    if not isinstance(error, KeyboardInterrupt | Terminated):
        return ""
    cause = str(error) if isinstance(error, Terminated) else "Ctrl-C (SIGINT)"
    return f"interrupted at step {t:,} by {cause}"


class Interruption:
    """Context manager in which SIGINT and SIGTERM stop a clock. At the end, the exception of the signal is raised.

    Signals that the user handles or ignores are not affected. Outside the main thread, no signals are handled.

    Args:
        clock: Clock that a signal stops.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._owner, self._since = os.getpid(), 0.0
        self._in_loop = self._in_critical = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for signum, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
                if signal.getsignal(signum) is default:
                    self._before[signum] = signal.signal(signum, self._handle)
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        if error is None and self.clock.interrupted is not None:  # the signal came after training or in a save
            raise error_of(self.clock.interrupted)

    @contextlib.contextmanager
    def training_loop(self) -> Iterator[None]:
        """Context of the training loop. `PATIENCE` seconds after a signal, the current step is interrupted.

        After a signal, any other error is replaced by the exception of the signal. The terminal also sends the signal
        to the worker processes. Therefore a worker may fail before the main process stops.
        """
        self._in_loop = True
        try:
            yield
        except Exception as error:
            if self.clock.interrupted is None:
                raise
            raise error_of(self.clock.interrupted) from error
        finally:
            self._in_loop = False

    @contextlib.contextmanager
    def critical(self) -> Iterator[None]:
        """Context of code that a signal must not interrupt, for example the code that saves a checkpoint."""
        self._in_critical = True
        try:
            yield
        finally:
            self._in_critical = False

    def _handle(self, signum: int, _: object) -> None:
        if os.getpid() != self._owner:  # this is a forked process with a copy of the clock
            signal.signal(signum, self._before[signum])
            os.kill(os.getpid(), signum)
        elif self.clock.interrupted is None:
            self._since = time.monotonic()
            self.clock.interrupt(signum)
            # `threading.Thread.start` needs a lock that the main thread may hold. This function needs no lock.
            _thread.start_new_thread(self._repeat_signal, (signum,))
        elif time.monotonic() - self._since > ONCE and (self._in_loop > self._in_critical or signum == signal.SIGINT):
            raise error_of(self.clock.interrupted)

    def _repeat_signal(self, signum: int) -> None:
        """Send the signal to the main thread again while the loop runs, since the main thread may be blocked."""
        time.sleep(PATIENCE)
        while self._in_loop or self._in_critical:
            if hasattr(signal, "pthread_kill") and not self._in_critical:
                signal.pthread_kill(threading.main_thread().ident or 0, signum)
            elif not self._in_critical:
                _thread.interrupt_main(signal.Signals(signum))
            time.sleep(PATIENCE)
