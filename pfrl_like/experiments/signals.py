"""Handling of SIGINT and SIGTERM: training ends after the running tick, so that a complete state is saved."""

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

#: Seconds that a tick gets to end after a signal before it is interrupted; and seconds in which a repeated signal is
#: ignored, since both a terminal and a program that forwards signals may send it.
PATIENCE, ONCE = 1.0, 0.5


class Interruption:
    """A context manager in which signals stop a clock; the signal's exception is raised at the end of the context.

    The user's own handlers and ignored signals stay as they are. Outside the main thread, signals are not handled.

    Args:
        clock: Clock that is stopped.
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
        if error is None and self.clock.interrupted is not None:  # it came after training, or during a save
            raise error_of(self.clock.interrupted)

    @contextlib.contextmanager
    def of_loop(self) -> Iterator[None]:
        """A context in which a hanging tick is interrupted; any error after a signal is attributed to the signal."""
        self._in_loop = True
        try:
            yield
        except Exception as error:
            if self.clock.interrupted is None:
                raise
            raise error_of(self.clock.interrupted) from error  # processes of the same group got the signal, too
        finally:
            self._in_loop = False

    @contextlib.contextmanager
    def critical(self) -> Iterator[None]:
        """A context in which nothing is interrupted, however long it takes."""
        self._in_critical = True
        try:
            yield
        finally:
            self._in_critical = False

    def _handle(self, signum: int, _: object) -> None:
        if os.getpid() != self._owner:  # a forked copy, whose clock is not that of the run
            signal.signal(signum, self._before[signum])
            os.kill(os.getpid(), signum)
        elif self.clock.interrupted is None:
            self._since = time.monotonic()
            self.clock.interrupt(signum)
            _thread.start_new_thread(self._insist, (signum,))  # takes no lock that the main thread may hold
        elif time.monotonic() - self._since > ONCE and (self._in_loop > self._in_critical or signum == signal.SIGINT):
            raise error_of(self.clock.interrupted)

    def _insist(self, signum: int) -> None:
        """Send the signal again to the main thread while the loop runs, since that thread may be waiting."""
        time.sleep(PATIENCE)
        while self._in_loop or self._in_critical:
            if self._in_critical:
                pass
            elif hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident or 0, signum)
            else:
                _thread.interrupt_main(signal.Signals(signum))
            time.sleep(PATIENCE)
