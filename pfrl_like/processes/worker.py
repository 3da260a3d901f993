"""What runs inside a worker process: its life ends with its parent's, and its errors travel home as text."""

import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from pfrl_like.processes.groups import end_own_group, lead_group
from pfrl_like.processes.pipe_end import WaitingEnd

#: Asks a worker that hangs where it is, and ends it.
LAST_WORDS = getattr(signal, "SIGUSR1", signal.SIGTERM)


@dataclass(frozen=True)
class Failure:
    """The last news of a worker that raised or died.

    Attributes:
        reason: What happened, for instance "was killed by signal 9 (SIGKILL)".
        traceback_text: The worker's own traceback, empty if it died without one.
    """

    reason: str
    traceback_text: str = ""


@dataclass(frozen=True)
class Finished:
    """The last news of a worker whose target returned; `result` is what it returned."""

    result: Any = None


class Portable:
    """A callable that travels by cloudpickle, so that lambdas and local functions reach spawned processes, too.

    It is unpacked at its first call and not while the process starts, so that an error in doing so can be reported.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Callable[..., Any] | None = function
        self._packed = b""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self._function is None:
            self._function = pickle.loads(self._packed)
        return self._function(*args, **kwargs)

    def pack(self) -> None:
        """Pickle the function now.

        Raises:
            TypeError: If it cannot be pickled.
        """
        if not self._packed:
            try:
                self._packed = cloudpickle.dumps(self._function)
            except Exception as error:
                raise TypeError(f"{self._function!r} cannot be sent to another process: {error}") from error

    def __getstate__(self) -> bytes:
        self.pack()
        return self._packed

    def __setstate__(self, packed: bytes) -> None:
        self._function, self._packed = None, packed


def run_worker(
    target: Callable[..., Any],
    connection: Connection,
    index: int,
    arguments: tuple[Any, ...],
    close_inherited: Callable[[], None],
    words: Connection,
    lifeline: Connection,
) -> None:
    """Run `target(channel, index, *arguments)` as the body of a process and report its end through the channel.

    Args:
        target: What to run.
        connection: The worker's end of a pipe to its parent; the channel is a `WaitingEnd` of it.
        index: Which worker this is.
        arguments: Further arguments.
        close_inherited: Closes what a fork has copied and this worker must not keep open.
        words: Where the stack goes when it is asked for, by a handler that needs no interpreter.
        lifeline: See `lead_group`.
    """
    lead_group(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C and SIGTERM, which come to whole groups, are the parent's
    signal.signal(signal.SIGTERM, partial(_leave_to_parent, os.getpid()))
    signal.signal(LAST_WORDS, _give_up)
    if hasattr(faulthandler, "register"):
        os.set_blocking(words.fileno(), False)
        faulthandler.register(LAST_WORDS, words, all_threads=True, chain=True)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    close_inherited()
    alone = partial(_end_when_alone, lifeline, os.getppid())
    threading.Thread(target=alone, daemon=True, name="parent-watch").start()
    channel = WaitingEnd(connection)
    news: Failure | Finished
    try:
        news = Finished(target(channel, index, *arguments))
    except BaseException as error:  # SystemExit and KeyboardInterrupt, too: the parent must hear of every end
        news = Failure(_describe(error), traceback.format_exc())
    _report(channel, news)
    if isinstance(news, Failure):
        sys.exit(1)


def _leave_to_parent(worker: int, signum: int, _: object) -> None:
    """Go on; not with SIG_IGN, which programs that an environment starts would inherit. Forked copies end."""
    if os.getpid() != worker:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)


def _give_up(signum: int, _: object) -> None:
    """End, so that what is open is closed and it is told where the worker was.

    Asked once more, it goes on with what it is closing or saving.
    """
    signal.signal(signum, lambda *_: None)
    raise SystemExit("ended from outside")


def _report(channel: WaitingEnd, news: Failure | Finished) -> None:
    try:
        channel.send(news)
    except OSError:  # the parent has gone or no longer listens
        pass
    except Exception as error:  # the result cannot be pickled
        channel.send(Failure(_describe(error), traceback.format_exc()))


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # an error in the error
        text = ""
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def _end_when_alone(lifeline: Connection, parent_pid: int) -> None:
    """Wait for the parent's end: its pipes close, or, where other forks of it hold them open, the system adopts us."""
    parent = multiprocessing.parent_process()
    ends: list[Any] = [lifeline] if parent is None else [lifeline, parent.sentinel]
    while not wait(ends, 1.0) and os.getppid() == parent_pid:
        pass
    end_own_group()
