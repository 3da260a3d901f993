"""SIGINT and SIGTERM end training when its tick is over, so that what is saved then is whole."""

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

#: Seconds that a tick gets to end by itself, after which it is broken off; and within which a signal comes once, since
#: a terminal and a program that passes signals on may both send it.
PATIENCE, ONCE = 1.0, 0.5


class Interruption:
    """While it is entered, signals stop a clock; at the end the one that came takes its effect.

    Handlers of the user's own stay, as does what is ignored, and threads other than the main one cannot have any.

    Args:
        clock: What is stopped.
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
        if error is None and self.clock.interrupted is not None:  # it came when training was over, or being saved
            raise error_of(self.clock.interrupted)

    @contextlib.contextmanager
    def of_loop(self) -> Iterator[None]:
        """Here a tick that does not end is broken off, and whatever fails after a signal failed because of it."""
        self._in_loop = True
        try:
            yield
        except Exception as error:
            if self.clock.interrupted is None:
                raise
            raise error_of(self.clock.interrupted) from error  # processes of its group have got the signal, too
        finally:
            self._in_loop = False

    @contextlib.contextmanager
    def critical(self) -> Iterator[None]:
        """Here nothing is broken off, however long it lasts."""
        self._in_critical = True
        try:
            yield
        finally:
            self._in_critical = False

    def _handle(self, signum: int, _: object) -> None:
        if os.getpid() != self._owner:  # a forked copy, of which the clock is not the run's
            signal.signal(signum, self._before[signum])
            os.kill(os.getpid(), signum)
        elif self.clock.interrupted is None:
            self._since = time.monotonic()
            self.clock.interrupt(signum)
            _thread.start_new_thread(self._insist, (signum,))  # which takes no lock that the main thread may hold
        elif time.monotonic() - self._since > ONCE and (self._in_loop > self._in_critical or signum == signal.SIGINT):
            raise error_of(self.clock.interrupted)

    def _insist(self, signum: int) -> None:
        """Send the signal again while the loop goes on, to the thread that may wait for something."""
        time.sleep(PATIENCE)
        while self._in_loop or self._in_critical:
            if self._in_critical:
                pass
            elif hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident or 0, signum)
            else:
                _thread.interrupt_main(signal.Signals(signum))
            time.sleep(PATIENCE)
