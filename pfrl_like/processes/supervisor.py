"""`Workers`: child processes, each with a pipe, whose death is seen at once and that never outlive their parent."""

import contextlib
import math
import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any

from pfrl_like.errors import WorkerError
from pfrl_like.processes.doorbell import Doorbell
from pfrl_like.processes.worker import Failure, Finished, run_worker

#: Seconds a worker gets to end by itself, and then to end after SIGTERM, before it is killed.
PATIENCE = (2.0, 1.0)

#: Seconds after which a wait for one worker looks at the others.
_GLANCE = 0.5

_GUARD_HINT = (
    'put the part of the script that starts workers under `if __name__ == "__main__":`, or pass start_method="fork"'
)


class Workers:
    """Supervised worker processes.

    Worker i runs `target(channel, i, *arguments[i])`, where `channel` is its end of a pipe. What it sends there comes
    out of `wait` and `receive` here; the last thing that comes is `Finished` or `Failure`.

    Args:
        target: The body of every worker; a module-level function or a `Portable`.
        arguments: One tuple of further arguments for each worker. Shared tensors, events and locks go here as they
            are; functions that may be lambdas go as `Portable`.
        start_method: "fork", "spawn" or "forkserver"; None is forkserver where there is one, else spawn.
        name: What the processes are called in a process list, with their number.

    Raises:
        ValueError: If the start method is not available.
        RuntimeError: If the processes cannot be started because the main script has no main guard.
    """

    def __init__(
        self,
        target: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        *,
        start_method: str | None = None,
        name: str = "worker",
    ) -> None:
        context = _context(start_method, target)
        self.start_method: str = context.get_start_method()
        self._channels: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._ended: set[int] = set()
        self._answered: set[int] = set()  # at least once
        self._inboxes: list[deque[Any]] = [deque() for _ in arguments]  # what `receive` found and was not asked for
        self._deaths: list[int] = []  # descriptors that become readable when a process ends
        self._doorbells: list[Doorbell] = []  # of each worker
        self._doorbell = Doorbell()  # of all
        shared = (self._processes, self._channels, self._deaths, os.getpid())
        self._finalizer = weakref.finalize(self, _shut_down, *shared)
        _open.add(self)
        for index, arguments_of_one in enumerate(arguments):
            parent_end, worker_end = context.Pipe()
            self._channels.append(parent_end)
            try:
                process = context.Process(
                    target=run_worker,
                    args=(target, worker_end, index, arguments_of_one, self._parent_pid(), _close_inherited),
                    name=f"{name}-{index}",
                    daemon=True,
                )
                with _interrupt_blocked():
                    process.start()
            except (EOFError, ConnectionError) as error:  # the fork server died while it imported the main script
                self.close()
                raise RuntimeError(f"worker {index} could not be started; {_GUARD_HINT}") from error
            except BaseException:
                self.close()
                raise
            finally:
                worker_end.close()
            self._processes.append(process)
            self._watch(index)

    def __len__(self) -> int:
        return len(self._processes)

    @property
    def processes(self) -> Sequence[BaseProcess]:
        """The processes, in order."""
        return tuple(self._processes)

    @property
    def closed(self) -> bool:
        """Whether `close` has been called."""
        return not self._finalizer.alive

    @property
    def running(self) -> frozenset[int]:
        """The workers from which neither `Finished` nor `Failure` has come yet."""
        return frozenset(range(len(self))) - self._ended

    def send(self, index: int, message: Any) -> None:
        """Send something to one worker.

        Raises:
            WorkerError: If that worker has ended.
        """
        if self.closed or index in self._ended:
            raise WorkerError(index, "had ended before")
        try:
            self._channels[index].send(message)
        except OSError:  # its end of the pipe is closed; what it said before is still in there
            news = self._read(index)
            while not isinstance(news, Failure | Finished):
                news = self._read(index)
            raise _worker_error(index, news) from None

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any]]:
        """Wait until some workers have sent something or ended.

        Args:
            timeout: Seconds to wait at most; None is for ever.

        Returns:
            Pairs of a worker's index and its next message; an ended worker's last one is `Finished` or `Failure`.
            Empty after the time-out and when all workers have ended.
        """
        kept = [(index, inbox.popleft()) for index, inbox in enumerate(self._inboxes) if inbox]
        if kept or len(self._ended) == len(self._processes):
            return kept
        return [(index, self._read(index, speaks)) for index, speaks in self._doorbell.wait(timeout).items()]

    def receive(self, indices: Iterable[int] | None = None, timeout: float | None = None) -> list[Any]:
        """Wait for one message from each of some workers.

        Args:
            indices: The workers, each of which owes a message; None is all.
            timeout: Seconds to wait at most; None is for ever.

        Returns:
            The messages in the order of `indices`.

        Raises:
            WorkerError: If any worker raises or dies, or one of these ends or lets the time pass.
        """
        order = range(len(self)) if indices is None else list(indices)
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        messages = {index: self._receive_from(index, deadline) for index in order}
        return [messages[index] for index in order]

    def close(self, ask: Callable[[], object] | None = None) -> None:
        """End every worker and wait for its end; a second call does nothing.

        The pipes are closed, which ends a worker that listens to its own; after 2 s it is terminated, after another
        second killed.

        Args:
            ask: Called first, to tell workers that do not listen to their pipe, for instance `stop_event.set`.
        """
        if ask is not None and not self.closed:
            ask()
        _open.discard(self)
        self._finalizer()

    def _receive_from(self, index: int, deadline: float) -> Any:
        """The next message of one worker; the others may wait, but now and then it is seen whether one has died."""
        inbox = self._inboxes[index]
        while not inbox:
            if self.closed or index in self._ended:
                raise WorkerError(index, "had ended before")
            remaining = deadline - time.monotonic()
            rung = self._doorbells[index].wait(max(min(remaining, _GLANCE), 0.0))
            if not rung and remaining <= _GLANCE:
                raise WorkerError(index, "has not answered in time")
            for other, speaks in (rung or self._doorbell.wait(0.0)).items():
                message = self._read(other, speaks)
                if isinstance(message, Failure):
                    raise _worker_error(other, message)
                if not isinstance(message, Finished):
                    self._inboxes[other].append(message)
                elif other == index:
                    raise _worker_error(other, message)
        return inbox.popleft()

    def _parent_pid(self) -> int | None:
        # Linux can kill a child when the thread that made it ends: of use only if that is the main thread, and if the
        # child's parent is this process and not the fork server.
        is_main = threading.current_thread() is threading.main_thread()
        return os.getpid() if is_main and self.start_method != "forkserver" else None

    def _watch(self, index: int) -> None:
        self._deaths.append(_death_descriptor(self._processes[index]))
        self._doorbells.append(Doorbell())
        for doorbell in (self._doorbell, self._doorbells[index]):
            doorbell.add(index, self._channels[index], self._deaths[index])

    def _read(self, index: int, speaks: bool = True) -> Any:
        """The next message of a worker that has rung; one that died in silence may have left its pipe to a child."""
        try:
            message = self._channels[index].recv() if speaks else self._death(index)
        except (EOFError, OSError):
            message = self._death(index)
        except Exception as error:
            message = Failure(f"sent what cannot be read here ({type(error).__name__}: {error})")
        if isinstance(message, Failure | Finished):
            self._ended.add(index)
            self._doorbell.remove(index)
        else:
            self._answered.add(index)
        return message

    def _death(self, index: int) -> Failure:
        process = self._processes[index]
        if process.exitcode is None:  # the end of its pipe may come a moment before its own
            process.join(timeout=1.0)
        code = process.exitcode
        if code is None:
            return Failure("has gone and left a process behind")
        if code < 0:
            with contextlib.suppress(ValueError):
                return Failure(f"was killed by signal {-code} ({signal.Signals(-code).name})")
            return Failure(f"was killed by signal {-code}")
        reason = f"ended with exit code {code} before it could say why; see its own message above"
        if self.start_method != "fork" and index not in self._answered:  # it may not even have begun
            reason += f". If the script has no main guard, {_GUARD_HINT}"
        return Failure(reason)


def _worker_error(index: int, news: Failure | Finished) -> WorkerError:
    if isinstance(news, Failure):
        return WorkerError(index, news.reason, news.traceback_text)
    return WorkerError(index, "had finished before it answered")


def _context(start_method: str | None, target: Callable[..., Any]) -> Any:
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        start_method = "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {_GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        _preload_fork_server(target)
    return context


def _preload_fork_server(target: Callable[..., Any]) -> None:
    """Have the fork server import what its workers need, once for all, unless the user has chosen what it imports."""
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        modules = {run_worker.__module__, getattr(target, "__module__", run_worker.__module__)}
        forkserver.set_forkserver_preload(["__main__", *sorted(modules)])
    forkserver.ensure_running()  # now and not while Ctrl-C is held back, which all its children would inherit


@contextlib.contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Hold back Ctrl-C, so that a starting child inherits the block and does not die of it with a long traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _close_inherited() -> None:
    """In a forked worker: close the parent's ends of all pipes, else a worker hears no end of file when it dies."""
    for workers in list(_open):
        for channel in workers._channels:
            channel.close()


def _death_descriptor(process: BaseProcess) -> int:
    """The process itself as a file where the system has that, else the sentinel, which its children may hold open."""
    if hasattr(os, "pidfd_open") and process.pid is not None:
        with contextlib.suppress(OSError):  # an old kernel, or it has ended already
            return os.pidfd_open(process.pid)
    return process.sentinel


def _shut_down(processes: list[BaseProcess], channels: list[Connection], deaths: list[int], owner: int) -> None:
    if os.getpid() != owner:  # a forked copy of the owner must not end the owner's workers
        return
    for channel in channels:
        channel.close()
    try:
        _await_ends(processes, deaths, PATIENCE[0])
        for process in processes:
            if process.is_alive():
                process.terminate()
        _await_ends(processes, deaths, PATIENCE[1])
    finally:  # a second Ctrl-C comes here at once
        for process in processes:
            if process.is_alive():
                process.kill()
        for process, death in zip(processes, deaths, strict=True):
            process.join(timeout=5.0)
            if death != process.sentinel:
                os.close(death)


def _await_ends(processes: list[BaseProcess], deaths: list[int], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    waiting = {death for process, death in zip(processes, deaths, strict=True) if process.is_alive()}
    while waiting and (remaining := deadline - time.monotonic()) > 0:
        waiting -= set(wait_for_any(list(waiting), remaining))
