"""Code that runs in worker processes: start methods, functions to send, last messages, and ending with the parent."""

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
    """Make a worker the leader of a session, which Linux kills when the parent has ended.

    Args:
        lifeline: Reading end of a pipe; the parent holds the other end and never sends data.
    """
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # it is already a session leader
            os.setsid()
    if sys.platform == "linux":  # the kernel kills the session even if C code blocks all threads
        import fcntl

        descriptor = lifeline.fileno()
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    if wait([lifeline], 0):  # the parent has already ended
        end_own_group()


def end_own_group() -> None:
    """End a worker whose parent has ended, and the programs that the worker has started."""
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def end_groups(workers: Sequence[tuple[int, int]], seconds: float) -> None:
    """End the programs that ended workers have started: send SIGTERM, and SIGKILL after some time.

    Args:
        workers: Process id and start time of each worker.
        seconds: Seconds between the two signals.
    """
    if not hasattr(os, "killpg"):
        return
    # If a new process has the id now, the group is not ours; id 0 would mean our own group.
    ours = [pid for pid, started in workers if pid > 0 and start_time(pid) in (-1, started)]
    left = [pid for pid in ours if _signal_group(pid, signal.SIGTERM)]
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [pid for pid in left if _signal_group(pid, 0)]
    for pid in left:
        _signal_group(pid, signal.SIGKILL)


def _signal_group(group: int, signum: int) -> bool:
    """Send a signal to a process group; returns False if the group does not exist."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):  # the second: the group is not ours
        return False
    return True


#: Signal that makes a hanging worker report its stack, and ends the worker.
LAST_WORDS = getattr(signal, "SIGUSR1", signal.SIGTERM)


@dataclass(frozen=True)
class Failure:
    """Last message of a worker that raised an error or died.

    Attributes:
        reason: Description, for instance "was killed by signal 9 (SIGKILL)".
        traceback_text: The worker's traceback; "" if the worker died without a traceback.
    """

    reason: str
    traceback_text: str = ""


@dataclass(frozen=True)
class Finished:
    """Last message of a worker whose target returned; `result` is the returned value.

    A caller that waits for another message treats `Finished` as a failure, with this `reason` and `traceback_text`.
    """

    result: Any = None
    reason: ClassVar[str] = "had finished before it answered"
    traceback_text: ClassVar[str] = ""


class Portable:
    """A callable that is sent with cloudpickle, so that lambdas and local functions can be used in spawned processes.

    It is unpickled at the first call, not when the process starts, so that an unpickling error can be reported.
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
        """Pickle the function, unless it is already pickled, and return the bytes.

        Raises:
            TypeError: If the function cannot be pickled.
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
    """Wrap a function for workers; pickles the function now, unless workers start by fork.

    Args:
        function: The function.
        name: Name of the function in error messages.
        start_method: Start method of the workers.

    Raises:
        TypeError: If the function cannot be pickled.
    """
    portable = Portable(function)
    if start_method != "fork":
        try:
            portable.pack()
        except TypeError as error:
            raise TypeError(f'{name}: {error}; with start_method="fork" functions are not sent') from error
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
    """Run `target(channel, index, *arguments)` as the body of a process, and send the result or error to the parent.

    Args:
        target: Function to run.
        connection: The worker's end of a pipe to its parent; the channel is a `WaitingEnd` of it.
        index: Index of this worker.
        arguments: Additional arguments.
        close_inherited: Function that closes the pipes that a fork has copied and that this worker must not keep open.
        words: Pipe for the stack; on the signal `LAST_WORDS` a handler writes the stack without the interpreter.
        lifeline: Reading end of a pipe; the parent holds the other end and never sends data.
    """
    lead_group(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C and SIGTERM go to whole groups: the parent handles them
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
    outcome: Failure | Finished
    try:
        outcome = Finished(target(channel, index, *arguments))
    except BaseException as error:  # also SystemExit and KeyboardInterrupt: every end is reported to the parent
        outcome = Failure(_describe(error), traceback.format_exc())
    try:
        channel.send(outcome)
    except OSError:  # the parent has ended or closed the pipe
        pass
    except Exception as error:  # the result cannot be pickled
        channel.send(Failure(_describe(error), traceback.format_exc()))
    if isinstance(outcome, Failure):
        sys.exit(1)


def _leave_to_parent(worker: int, signum: int, _: object) -> None:
    """Ignore a signal in the worker; forked copies of the worker end.

    With SIG_IGN, programs that an environment starts would inherit the setting.
    """
    if os.getpid() != worker:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)


def _give_up(signum: int, _: object) -> None:
    """End the worker with SystemExit, so that open resources are closed and the traceback is reported.

    A second signal has no effect, so that closing and saving can finish.
    """
    signal.signal(signum, lambda *_: None)
    raise SystemExit("ended by its parent")


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # __str__ of the error raises an error
        text = ""
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def _end_when_alone(lifeline: Connection, parent_pid: int) -> None:
    """Wait until the parent has ended, then end the worker.

    When the parent ends, its pipes close. If other forks of the parent keep the pipes open, the worker gets a new
    parent process.
    """
    parent = multiprocessing.parent_process()
    ends: list[Any] = [lifeline] if parent is None else [lifeline, parent.sentinel]
    while not wait(ends, 1.0) and os.getppid() == parent_pid:
        pass
    end_own_group()


GUARD_HINT = (
    'put the part of the script that starts workers under `if __name__ == "__main__":`, or pass start_method="fork"'
)


def context_of(start_method: str | None, target: Callable[..., Any]) -> Any:
    """Return the multiprocessing context of a start method; None uses forkserver if available, otherwise spawn.

    Raises:
        ValueError: If the start method does not exist.
        RuntimeError: If this process cannot start workers.
    """
    start_method = chosen_method(start_method)
    if multiprocessing.current_process().daemon:
        raise RuntimeError(
            "worker processes cannot be started here: this process is daemonic and may not have children. Use "
            "SerialVectorEnv instead of MultiprocessVectorEnv, or start this process with daemon=False"
        )
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    if start_method == "fork":  # otherwise each worker starts its own tracker, which would remove the parent's memory
        resource_tracker.ensure_running()
    elif start_method == "forkserver":
        from multiprocessing import forkserver

        server = getattr(forkserver, "_forkserver", None)
        if getattr(server, "_preload_modules", None) == ["__main__"]:  # unless the user has chosen the modules
            modules = {run_worker.__module__, getattr(target, "__module__", run_worker.__module__)}
            forkserver.set_forkserver_preload(["__main__", *sorted(modules)])  # once for all workers
        forkserver.ensure_running()  # now: its children would inherit a block of Ctrl-C
    return context


def chosen_method(start_method: str | None) -> str:
    """Return the name of a start method; None uses forkserver if available, otherwise spawn.

    Raises:
        ValueError: If the start method does not exist.
    """
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        return "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    return start_method
