"""`Workers`: child processes, each with a pipe, whose death is seen at once and that never outlive their parent."""

import contextlib
import multiprocessing
import os
import selectors
import signal
import sys
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
from pfrl_like.processes.worker import Failure, Finished, run_worker

#: Seconds a worker gets to end by itself, and then to end after SIGTERM, before it is killed.
PATIENCE = (2.0, 1.0)

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
        context = _context(start_method)
        self.start_method: str = context.get_start_method()
        self._channels: list[Connection] = []
        self._processes: list[BaseProcess] = []
        self._ended: set[int] = set()
        self._inboxes: list[deque[Any]] = [deque() for _ in arguments]  # what `receive` found and was not asked for
        self._deaths: list[int] = []  # descriptors that become readable when a process ends
        self._selector = None if sys.platform == "win32" else selectors.PollSelector()
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
        try:
            self._channels[index].send(message)
        except (OSError, ValueError):  # closed at the other end, closed here
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
        return [(index, self._read(index)) for index in self._ready(timeout)]

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
        order = list(range(len(self))) if indices is None else list(indices)
        messages = {index: self._inboxes[index].popleft() for index in order if self._inboxes[index]}
        pending = set(order) - messages.keys()
        deadline = None if timeout is None else time.monotonic() + timeout
        while pending:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if pending & self._ended:
                raise WorkerError(min(pending & self._ended), "had ended before")
            ready = self._ready(remaining)
            if not ready:
                raise WorkerError(min(pending), f"has not answered within {timeout:g} s")
            for index in ready:
                message = self._read(index)
                if isinstance(message, Failure) or (isinstance(message, Finished) and index in pending):
                    raise _worker_error(index, message)
                if index in pending:
                    messages[index] = message
                    pending.discard(index)
                else:
                    self._inboxes[index].append(message)
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

    def _parent_pid(self) -> int | None:
        # Linux can kill a child when the thread that made it ends: of use only if that is the main thread, and if the
        # child's parent is this process and not the fork server.
        is_main = threading.current_thread() is threading.main_thread()
        return os.getpid() if is_main and self.start_method != "forkserver" else None

    def _watch(self, index: int) -> None:
        self._deaths.append(_death_descriptor(self._processes[index]))
        if self._selector is not None:
            self._selector.register(self._channels[index], selectors.EVENT_READ, index)
            self._selector.register(self._deaths[index], selectors.EVENT_READ, index)

    def _unwatch(self, index: int) -> None:
        if index not in self._ended:
            self._ended.add(index)
            if self._selector is not None:
                self._selector.unregister(self._channels[index])
                self._selector.unregister(self._deaths[index])

    def _ready(self, timeout: float | None) -> set[int]:
        if self._selector is not None:
            return {key.data for key, _ in self._selector.select(timeout)}
        objects = {self._channels[i]: i for i in self.running} | {self._deaths[i]: i for i in self.running}
        return {objects[item] for item in wait_for_any(list(objects), timeout)}  # type: ignore[index]

    def _read(self, index: int) -> Any:
        """The next message of a worker from which one has come or that has died."""
        if self.closed:
            raise ValueError("the workers have been closed")
        channel = self._channels[index]
        try:
            # No message, so it has died, and a process of its own still holds the end of the pipe.
            message = channel.recv() if channel.poll() else self._death(index)
        except (EOFError, OSError):
            message = self._death(index)
        except Exception as error:
            message = Failure(f"sent what cannot be read here ({type(error).__name__}: {error})")
        if isinstance(message, Failure | Finished):
            self._unwatch(index)
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
        hint = "" if self.start_method == "fork" else f". If the script has no main guard, {_GUARD_HINT}"
        return Failure(reason + hint)


def _worker_error(index: int, news: Failure | Finished) -> WorkerError:
    if isinstance(news, Failure):
        return WorkerError(index, news.reason, news.traceback_text)
    return WorkerError(index, "had finished before it answered")


def _context(start_method: str | None) -> Any:
    available = multiprocessing.get_all_start_methods()
    if start_method is None:
        start_method = "forkserver" if "forkserver" in available else "spawn"
    if start_method not in available:
        raise ValueError(f"start_method is {start_method!r}, expected one of {available}")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise RuntimeError(f"this script starts worker processes while a worker is importing it; {_GUARD_HINT}")
    context = multiprocessing.get_context(start_method)
    if start_method == "forkserver":
        _preload_fork_server()
    return context


def _preload_fork_server() -> None:
    """Have the fork server import this package once for all workers, unless the user has chosen what it imports."""
    from multiprocessing import forkserver

    server = getattr(forkserver, "_forkserver", None)
    if getattr(server, "_preload_modules", None) == ["__main__"]:
        forkserver.set_forkserver_preload(["__main__", run_worker.__module__])


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
