"""How a worker process starts, and when; what runs inside it, and how it ends with its parent."""

import contextlib
import faulthandler
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, ClassVar

import cloudpickle  # type: ignore[import-untyped]

from pfrl_like.processes.pipe_end import WaitingEnd
from pfrl_like.utils.stoppable_thread import start_time


def lead_group(lifeline: Connection) -> None:
    """In a worker: begin a session, which Linux ends when the parent has gone.

    Args:
        lifeline: A pipe that the parent holds the other end of, and nothing is ever sent through.
    """
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # it leads one already
            os.setsid()
    if sys.platform == "linux":  # where the kernel kills the session, though C code lets no thread run
        import fcntl

        descriptor = lifeline.fileno()
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if wait([lifeline], 0):  # the parent has gone before
        end_own_group()


def end_own_group() -> None:
    """In a worker whose parent has gone: end, with the programs that it has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def end_groups(workers: Sequence[tuple[int, int]], seconds: float) -> None:
    """End what programs workers that have ended have left: they are told to, and killed after some time.

    Args:
        workers: Number and start time of the process of each.
        seconds: That time.
    """
    if not hasattr(os, "killpg"):
        return
    # A number that another process has by now is that of another group; 0 would be our own.
    ours = [pid for pid, started in workers if pid > 0 and start_time(pid) in (-1, started)]
    left = [pid for pid in ours if _tell(pid, signal.SIGTERM)]
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [pid for pid in left if _tell(pid, 0)]
    for pid in left:
        _tell(pid, signal.SIGKILL)


def _tell(group: int, signum: int) -> bool:
    """Send a signal to a group; False if there is none."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):  # or none of ours
        return False
    return True


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
    """The last news of a worker whose target returned; `result` is what it returned.

    To who waits for something else it is a failure, whose reason and traceback it has.
    """

    result: Any = None
    reason: ClassVar[str] = "had finished before it answered"
    traceback_text: ClassVar[str] = ""


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

    def pack(self) -> bytes:
        """Pickle the function now, if that has not been done.

        Raises:
            TypeError: If it cannot be pickled.
        """
        if not self._packed:
            try:
                self._packed = cloudpickle.dumps(self._function)
            except Exception as error:
                raise TypeError(f"{self._function!r} cannot be sent to another process: {error}") from error
        return self._packed

    __getstate__ = pack

    def __setstate__(self, packed: bytes) -> None:
        self._function, self._packed = None, packed


def sendable(function: Callable[..., Any], name: str, start_method: str | None) -> Portable:
    """A function for workers, packed now where their processes do not start by fork.

    Args:
        function: The function.
        name: What the error calls it.
        start_method: How they start.

    Raises:
        TypeError: If it cannot be packed.
    """
    portable = Portable(function)
    if start_method != "fork":
        try:
            portable.pack()
        except TypeError as error:
            raise TypeError(f'{name}: {error}; start_method="fork" needs no sending') from error
    return portable


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
    try:
        channel.send(news)
    except OSError:  # the parent has gone or no longer listens
        pass
    except Exception as error:  # the result cannot be pickled
        channel.send(Failure(_describe(error), traceback.format_exc()))
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


GUARD_HINT = (
    'put the part of the script that starts workers under `if __name__ == "__main__":`, or pass start_method="fork"'
)


def context_of(start_method: str | None, target: Callable[..., Any]) -> Any:
    """The context of a start method that can start workers from here; None is the best one.

    Raises:
        ValueError: If there is none of this name.
        RuntimeError: If this process can start none.
    """
    start_method = chosen_method(start_method)
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "worker processes cannot be started here: this process is daemonic, and may have no children. Use "
            "SerialVectorEnv in it, in the place of MultiprocessVectorEnv, or start it with daemon=False"
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    if start_method == "fork":  # else a worker starts one of its own, which removes the parent's memory at its end
        resource_tracker.ensure_running()
    elif start_method == "forkserver":
        from multiprocessing import forkserver

        server = getattr(forkserver, "_forkserver", None)
        if getattr(server, "_preload_modules", None) == ["__main__"]:  # unless the user has chosen what it imports
            modules = {run_worker.__module__, getattr(target, "__module__", run_worker.__module__)}
            forkserver.set_forkserver_preload(["__main__", *sorted(modules)])  # once for all workers
        forkserver.ensure_running()  # now and not while Ctrl-C is held back, which all its children would inherit
    return context


def chosen_method(start_method: str | None) -> str:
    """The name of a start method; None is the best one.

    Raises:
        ValueError: If there is none of this name.
    """
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        return "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    return start_method
