"""Functions and classes for worker processes: start methods, callables to send, last messages, end of a worker."""

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
import torch

from pfrl_like.processes.pipe_end import WaitingEnd
from pfrl_like.utils.stoppable_thread import start_time


def lead_session(lifeline: Connection) -> None:
    """Make a worker the leader of a session. On Linux, the kernel kills the session when the parent ends.

    Args:
        lifeline: Reading end of a pipe. The parent keeps the other end open and never sends data.
    """
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):  # the worker is already a session leader
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
    """End the programs that ended workers have started: send SIGTERM, and after `seconds` send SIGKILL.

    Args:
        workers: Process id and start time of each worker.
        seconds: Seconds between the two signals.
    """
    if not hasattr(os, "killpg"):
        return
    # If a new process has the same id, the group does not belong to the worker. Id 0 would mean the caller's group.
    ours = [pid for pid, started in workers if pid > 0 and start_time(pid) in (-1, started)]
    left = [pid for pid in ours if _signal_group(pid, signal.SIGTERM)]
    deadline = time.monotonic() + seconds
    while left and time.monotonic() < deadline:
        time.sleep(0.01)
        left = [pid for pid in left if _signal_group(pid, 0)]
    for pid in left:
        _signal_group(pid, signal.SIGKILL)


def _signal_group(group: int, signum: int) -> bool:
    """Send a signal to a process group. Return False if the group does not exist or belongs to another user."""
    try:
        os.killpg(group, signum)
    except (ProcessLookupError, PermissionError):
        return False
    return True


#: Signal after which a worker writes its stack to the stack pipe and raises SystemExit.
REPORT_SIGNAL = getattr(signal, "SIGUSR1", signal.SIGTERM)


@dataclass(frozen=True)
class Failure:
    """Last message of a worker that raised an error or died.

    Attributes:
        reason: Description, for instance "was killed by signal 9 (SIGKILL)".
        traceback_text: The worker's traceback. Empty if the worker died without a traceback.
    """

    reason: str
    traceback_text: str = ""


@dataclass(frozen=True)
class Finished:
    """Last message of a worker. Its target returned without an error.

    Attributes:
        result: The returned value.
        reason: Reason of the error that is raised if the parent waits for another message of the worker.
        traceback_text: Empty, because the worker raised no error.
    """

    result: Any = None
    reason: ClassVar[str] = "had finished before it answered"
    traceback_text: ClassVar[str] = ""


class Portable:
    """A callable that is sent with cloudpickle, so that lambdas and local functions can be used in spawned processes.

    The callable is unpickled at the first call, not when the process starts, so that the worker can report an error.
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
        """Return the pickled function.

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
    """Wrap a function for workers. Unless workers are forked, pickle the function now, so that errors surface early.

    Args:
        function: The function.
        name: Name of the function in error messages.
        start_method: Start method of the workers.

    Raises:
        TypeError: If the function cannot be pickled.
    """
    portable = Portable(function)
    if resolve_start_method(start_method) != "fork":
        try:
            portable.pack()
        except TypeError as error:
            raise TypeError(f'{name}: {error}; with start_method="fork" functions are not pickled') from error
    return portable


def run_worker(
    target: Callable[..., Any],
    connection: Connection,
    index: int,
    arguments: tuple[Any, ...],
    close_inherited: Callable[[], None],
    stack_pipe: Connection,
    lifeline: Connection,
) -> None:
    """Run `target(channel, index, *arguments)` as the body of a process, and send the result or error to the parent.

    Args:
        target: Function to run.
        connection: The worker's end of a pipe to its parent. `channel` wraps it in a `WaitingEnd`.
        index: Index of this worker.
        arguments: Additional arguments.
        close_inherited: Function that closes this worker's copies of the pipes of other workers, after a fork.
        stack_pipe: Pipe into which `faulthandler` writes the stack of the worker after the signal `REPORT_SIGNAL`.
        lifeline: Reading end of a pipe. The parent keeps the other end open and never sends data.
    """
    lead_session(lifeline)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the worker also gets Ctrl-C and SIGTERM; the parent handles them
    signal.signal(signal.SIGTERM, partial(_ignore_signal, os.getpid()))
    signal.signal(REPORT_SIGNAL, _exit_on_signal)
    if hasattr(faulthandler, "register"):
        os.set_blocking(stack_pipe.fileno(), False)
        faulthandler.register(REPORT_SIGNAL, stack_pipe, all_threads=True, chain=True)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    close_inherited()
    watch = partial(_end_with_parent, lifeline, os.getppid())
    threading.Thread(target=watch, daemon=True, name="parent-watch").start()
    channel = WaitingEnd(connection)
    outcome: Failure | Finished
    try:
        outcome = Finished(target(channel, index, *arguments))
    except BaseException as error:  # SystemExit and KeyboardInterrupt are reported to the parent, too
        outcome = Failure(_describe(error), traceback.format_exc())
    try:
        channel.send(outcome)
    except OSError:  # the parent has ended or closed the pipe
        pass
    except Exception as error:  # the result cannot be pickled
        channel.send(Failure(_describe(error), traceback.format_exc()))
    if isinstance(outcome, Failure):
        sys.exit(1)


def _ignore_signal(worker: int, signum: int, _: object) -> None:
    """Ignore a signal in the worker, but end a process that the worker has forked.

    SIG_IGN is not used, because programs that an environment starts would inherit it.
    """
    if os.getpid() != worker:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)


def _exit_on_signal(signum: int, _: object) -> None:
    """End the worker with SystemExit, so that open resources are closed and the traceback is reported.

    A second signal has no effect, so that the worker can close its resources.
    """
    signal.signal(signum, lambda *_: None)
    raise SystemExit("ended by its parent")


def _describe(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # __str__ of the error raises an error
        text = ""
    return f"raised {type(error).__name__}" + (f": {text}" if text else "")


def _end_with_parent(lifeline: Connection, parent_pid: int) -> None:
    """Wait until the parent has ended, then end the worker.

    The end of the parent closes its pipes. If another process keeps these pipes open, the end is recognised because the
    worker gets a new parent process.
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
    """Return the multiprocessing context of a start method, in which workers with this `target` can be started.

    Raises:
        ValueError: If the start method does not exist.
        RuntimeError: If this process is daemonic, or if the main script has no main guard.
    """
    start_method = resolve_start_method(start_method)
    if multiprocessing.current_process().daemon:
        raise RuntimeError("this process is daemonic and may not have children. Use SerialVectorEnv, or daemon=False")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    # Otherwise each worker would start a tracker, and the tracker would remove the parent's shared memory.
    if start_method == "fork":
        resource_tracker.ensure_running()
    elif start_method == "forkserver":
        from multiprocessing import forkserver

        server = getattr(forkserver, "_forkserver", None)
        if getattr(server, "_preload_modules", None) == ["__main__"]:  # the default: the user has set no modules
            modules = {run_worker.__module__, getattr(target, "__module__", run_worker.__module__)}
            forkserver.set_forkserver_preload(["__main__", *sorted(modules)])  # import the modules once for all workers
        # Start the server now: later, Ctrl-C is blocked, and the server would inherit the block.
        forkserver.ensure_running()
    return context


def resolve_start_method(start_method: str | None) -> str:
    """Return the name of a start method.

    None means the method that `multiprocessing.set_start_method` has chosen. If none has been chosen, or if it is fork
    and a copy of this process would not be safe (it has several threads, or uses CUDA), None means forkserver if it is
    available, otherwise spawn. On Linux before Python 3.14, `multiprocessing` itself chooses fork as soon as a program
    makes an event, a value or a queue without a context.

    Raises:
        ValueError: If the start method does not exist.
    """
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        chosen = multiprocessing.get_start_method(allow_none=True)
        if chosen is not None and (chosen != "fork" or _is_fork_safe()):
            return chosen
        return "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    return start_method


def _is_fork_safe() -> bool:
    """True if this process has no other threads, whose locks a copy would keep forever, and has not used CUDA."""
    return threading.active_count() == 1 and not torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
