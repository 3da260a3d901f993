"""`Workers`: child processes with pipes. Their death is detected immediately, and they never outlive their parent.

Programs that workers start do not outlive the parent either: each worker is the leader of its own session, which ends
with the worker (see `worker`).
"""

import contextlib
import os
import select
import signal
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from typing import Any

from pfrl_like.errors import WorkerError
from pfrl_like.processes.pipe_end import UNFINISHED, Countdown, Doorbell, WaitingEnd, pipe_end
from pfrl_like.processes.worker import GUARD_HINT, LAST_WORDS, Failure, Finished, context_of, end_groups, run_worker
from pfrl_like.utils.stoppable_thread import start_time

#: Seconds that a worker has to end by itself, and seconds that it has to end after an interrupt, before it is killed.
#: HURRY is used by `close(hurry=True)`.
PATIENCE, HURRY = (2.0, 1.0), (0.2, 0.2)

#: Seconds that a hanging worker has to report a traceback; after that its stack is read instead.
_WORDS = 1.0

#: Seconds after which a wait for one worker checks the other workers.
_GLANCE = 0.5

#: Types of the last message of a worker.
_END_MESSAGES = (Failure, Finished)

#: Maximum number of bytes that are read of a stack.
_MAX_WORDS = 1 << 16


@dataclass
class _Child:
    """A worker process, and the parent's state of the worker.

    Attributes:
        process: The process.
        channel: The parent's end of the worker's pipe.
        words: Pipe that contains the worker's stack if the worker hangs.
        lifeline: Pipe that closes when this process ends, which ends the worker's session.
        started: Start time of the process.
        death: Descriptor that becomes readable when the process ends; -1 before the process has started.
        doorbell: Waits for this worker only.
        inbox: Messages that were read while `receive` waited for other workers.
        ended: True after the last message has arrived.
        answered: True after another message has arrived.
    """

    process: BaseProcess
    channel: WaitingEnd
    words: Connection
    lifeline: Connection
    started: int = 0
    death: int = -1
    doorbell: Doorbell = field(default_factory=Doorbell)
    inbox: deque[Any] = field(default_factory=deque)
    ended: bool = False
    answered: bool = False


class Workers:
    """Supervised worker processes.

    Worker i calls `target(channel, i, *arguments[i])`, where `channel` is the worker's end of a pipe. `wait` and
    `receive` return the messages that the worker sends. The last message is `Finished` or `Failure`.

    Args:
        target: Function that every worker calls; a module-level function or a `Portable`.
        arguments: One tuple of additional arguments per worker. Shared tensors, events and locks are passed unchanged;
            functions that may be lambdas are passed as `Portable`.
        start_method: "fork", "spawn" or "forkserver"; None uses forkserver if it is available, otherwise spawn.
        name: First part of the processes' names in a process list; the worker's number follows.

    Raises:
        ValueError: If the start method is not available.
        RuntimeError: If the processes cannot be started because the main script has no main guard, or because this
            process is daemonic.

    Attributes:
        closed: True after `close` was called.
        has_no_rng: True: the search for random streams skips this object, because its content is in other processes.
    """

    has_no_rng = True

    def __init__(
        self,
        target: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        *,
        start_method: str | None = None,
        name: str = "worker",
    ) -> None:
        self._context = context_of(start_method, target)
        self.start_method: str = self._context.get_start_method()
        self._target, self._name = target, name
        self._children: list[_Child] = []
        self._doorbell = Doorbell()  # of all workers
        self.closed = False
        self._owner = os.getpid()
        self._finalizer = weakref.finalize(self, _shut_down, self._children, self._owner)
        _open.add(self)
        for index, arguments_of_one in enumerate(arguments):
            self._start(index, arguments_of_one)

    def __len__(self) -> int:
        return len(self._children)

    @property
    def processes(self) -> Sequence[BaseProcess]:
        """The processes, in order."""
        return tuple(child.process for child in self._children)

    @property
    def running(self) -> frozenset[int]:
        """Indices of the workers that have not sent `Finished` or `Failure`."""
        return frozenset(index for index, child in enumerate(self._children) if not child.ended)

    def send(self, index: int, message: Any, timeout: float | None = None) -> None:
        """Send a message to one worker.

        Args:
            index: Index of the worker.
            message: The message. The part that fits into the pipe is sent at once, the rest when the worker reads.
            timeout: Maximum waiting time in seconds, ignored on Windows; None for no limit.

        Raises:
            WorkerError: If the worker has ended, or exceeds the time limit. In the second case the worker is ended.
        """
        if self.closed or self._children[index].ended:
            raise WorkerError(index, "had ended before")
        try:
            if not self._children[index].channel.send(message):
                self._send_rest(index, Countdown(timeout))
        except OSError:  # the worker's end of the pipe is closed
            raise self._ended(index) from None

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any]]:
        """Wait until some workers have sent a message or ended.

        Args:
            timeout: Maximum waiting time in seconds; None for no limit.

        Returns:
            Pairs of a worker's index and its next message. The last message of a worker that has ended is `Finished` or
            `Failure`. The list is empty after the time limit, if all workers have ended, and if only a part of a
            message has arrived.
        """
        kept = [(index, child.inbox.popleft()) for index, child in enumerate(self._children) if child.inbox]
        if kept or not self.running:
            return kept
        new = [(index, self._read(index, has_data)) for index, has_data in self._doorbell.wait(timeout).items()]
        return [(index, message) for index, message in new if message is not UNFINISHED]

    def receive(self, indices: Iterable[int] | None = None, timeout: float | None = None) -> list[Any]:
        """Wait for one message from each of some workers.

        Args:
            indices: Indices of the workers, each of which must send a message; None for all workers.
            timeout: Maximum waiting time in seconds; None for no limit.

        Returns:
            The messages in the order of `indices`.

        Raises:
            WorkerError: If any worker raises an error or dies, or if one of the given workers finishes or exceeds the
                time limit. A worker that exceeds the time limit is ended. Messages from other workers are kept.
        """
        order = range(len(self)) if indices is None else list(indices)
        countdown = Countdown(timeout)
        messages: dict[int, Any] = {}
        try:
            for index in order:
                messages[index] = self._receive_from(index, countdown)
        except WorkerError:
            for index, message in messages.items():
                self._children[index].inbox.appendleft(message)  # for callers that continue without the failed worker
            raise
        return list(messages.values())

    def interrupt(self, index: int) -> None:
        """Interrupt a worker with an exception, which ends it; a worker that cannot be interrupted continues."""
        _send_signal(self._children[index].process)

    def last_words(self, index: int) -> str:
        """End a hanging worker, if necessary by force; returns its traceback or stack, or "" if unavailable."""
        self.interrupt(index)
        countdown = Countdown(_WORDS)
        while not self._children[index].ended and (left := countdown.left()) > 0:
            for _, has_data in self._children[index].doorbell.wait(left).items():
                message = self._read(index, has_data)
                if isinstance(message, Failure) and message.traceback_text:
                    return message.traceback_text
        self._children[index].process.kill()  # now, so that no later call waits for the worker
        return self.stack(index)

    def stack(self, index: int) -> str:
        """Return the unread stack that an interrupted worker has reported; "" if there is none."""
        words = self._children[index].words
        return os.read(words.fileno(), _MAX_WORDS).decode(errors="replace") if words.poll() else ""

    def restart(self, index: int, arguments: tuple[Any, ...]) -> None:
        """End a worker by force, if it has not ended, and start a new worker with its index."""
        child = self._children[index]
        child.process.kill()
        child.process.join(timeout=5.0)
        end_groups([(child.process.pid or 0, child.started)], HURRY[1])
        if not child.ended:
            self._doorbell.remove(index)
        child.channel.close()
        _close_death(child)
        self._start(index, arguments)

    def close(self, *, hurry: bool = False) -> None:
        """End all workers and wait until they have ended; a second call does nothing.

        This method closes the pipes, which ends workers that read from them. It interrupts the remaining workers after
        2 s, and kills the remaining workers after another second.

        Args:
            hurry: True to do this within a second.
        """
        self.closed = True
        _open.discard(self)
        if self._finalizer.detach() is not None:
            _shut_down(self._children, self._owner, HURRY if hurry else PATIENCE)

    def _start(self, index: int, arguments: tuple[Any, ...]) -> None:
        parent_end, worker_end = self._context.Pipe()
        words, to_words = self._context.Pipe(duplex=False)
        lifeline, to_lifeline = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=run_worker,
            args=(self._target, worker_end, index, arguments, _close_inherited, to_words, lifeline),
            name=f"{self._name}-{index}",
            daemon=True,
        )
        child = _Child(process, pipe_end(parent_end), words, to_lifeline)
        self._children[index : index + 1] = [child]  # before the start, so that a forked worker closes its copies
        try:
            with _interrupt_blocked():
                process.start()
        except BaseException as error:
            self.close()
            if isinstance(error, EOFError | ConnectionError):  # the fork server died while importing the main script
                raise RuntimeError(f"worker {index} could not be started; {GUARD_HINT}") from error
            raise
        finally:
            for end in (worker_end, to_words, lifeline):
                end.close()
        child.started, child.death = start_time(process.pid or 0), _death_descriptor(process)
        for doorbell in (self._doorbell, child.doorbell):
            doorbell.add(index, child.channel.connection, child.death)

    def _send_rest(self, index: int, countdown: Countdown) -> None:
        child, poll = self._children[index], select.poll()
        poll.register(child.channel.connection.fileno(), select.POLLOUT)
        poll.register(child.death, select.POLLIN)
        while not child.channel.flush():
            left = countdown.left()
            if left <= 0:
                raise self._late(index)
            if child.death in dict(poll.poll(min(left, _GLANCE) * 1000)):  # another process may keep its pipe open
                raise self._ended(index)

    def _ended(self, index: int) -> WorkerError:
        """Return an error that describes how a worker has ended; earlier messages of the worker are skipped."""
        while True:
            for _, has_data in self._children[index].doorbell.wait(None).items():
                message = self._read(index, has_data)
                if isinstance(message, _END_MESSAGES):
                    return WorkerError(index, message.reason, message.traceback_text)

    def _late(self, index: int) -> WorkerError:
        return WorkerError(index, f"has not answered in time{self.limit()}", self.last_words(index))

    def limit(self) -> str:
        """Return text about an exceeded time limit that error messages add; subclasses override this method."""
        return ""

    def _receive_from(self, index: int, countdown: Countdown) -> Any:
        """Return the next message of one worker; regularly checks if another worker has died."""
        child = self._children[index]
        while not child.inbox:
            if self.closed or child.ended:
                raise WorkerError(index, "had ended before")
            left = countdown.left()
            readable = child.doorbell.wait(max(min(left, _GLANCE), 0.0))
            if not readable and left <= _GLANCE:
                raise self._late(index)
            for other, has_data in (readable or self._doorbell.wait(0.0)).items():
                message = self._read(other, has_data)
                if message is UNFINISHED:
                    if other == index and left <= 0:
                        raise self._late(index)
                elif not isinstance(message, _END_MESSAGES):
                    self._children[other].inbox.append(message)
                elif isinstance(message, Failure) or other == index:
                    raise WorkerError(other, message.reason, message.traceback_text)
        return child.inbox.popleft()

    def _read(self, index: int, has_data: bool = True) -> Any:
        """Return the next message of a worker, or `UNFINISHED` if only a part has arrived.

        If the worker has died and its pipe contains no data (`has_data` is False), the message is a `Failure`. The pipe
        may still be open in a child process of the worker.
        """
        child = self._children[index]
        try:
            message = child.channel.recv() if has_data else self._death(index)
        except (EOFError, OSError):
            message = self._death(index)
        except Exception as error:
            message = Failure(f"sent a message that cannot be unpickled ({type(error).__name__}: {error})")
        if isinstance(message, _END_MESSAGES):
            child.ended = True
            self._doorbell.remove(index)
        elif message is not UNFINISHED:
            child.answered = True
        return message

    def _death(self, index: int) -> Failure:
        process = self._children[index].process
        if process.exitcode is None:  # its pipe may close shortly before the process ends
            process.join(timeout=1.0)
        code = process.exitcode
        if code is None:
            return Failure("has ended, but a process that it started is still running")
        if code < 0:
            names = {int(each): f" ({each.name})" for each in signal.Signals}
            return Failure(f"was killed by signal {-code}{names.get(-code, '')}")
        reason = f"ended with exit code {code} without an error message (for example os._exit); see its output above"
        if self.start_method != "fork" and not self._children[index].answered:  # it may not have started its function
            reason += f". If the script has no main guard, {GUARD_HINT}"
        return Failure(reason)


_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _close_inherited() -> None:
    """Close the parent's ends of all pipes in a forked worker, so that workers notice when the parent dies."""
    for workers in list(_open):
        for child in workers._children:
            for end in (child.channel, child.words, child.lifeline):
                end.close()


@contextlib.contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Block Ctrl-C, so that a starting child inherits the block and does not end with a long traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _death_descriptor(process: BaseProcess) -> int:
    """Return the process as a file descriptor if available, else its sentinel, which its children may keep open."""
    if hasattr(os, "pidfd_open") and process.pid is not None:
        with contextlib.suppress(OSError):  # an old kernel, or the process has already ended
            return os.pidfd_open(process.pid)
    return process.sentinel


def _shut_down(children: list[_Child], owner: int, patience: tuple[float, float] | None = None) -> None:
    if os.getpid() != owner:  # a forked copy of the owner must not end the owner's workers
        return
    for child in children:
        child.channel.close()
    started = [child for child in children if child.death >= 0]
    patience = patience or PATIENCE
    try:
        _await_ends(started, patience[0])
        for child in started:
            _send_signal(child.process)
        _await_ends(started, patience[1])
    finally:  # a second Ctrl-C continues here
        for child in started:
            if child.process.is_alive():
                child.process.kill()
        for child in started:
            child.process.join(timeout=5.0)
            _close_death(child)
        end_groups([(child.process.pid or 0, child.started) for child in started], patience[1])
        for child in children:
            child.lifeline.close()


def _send_signal(process: BaseProcess) -> None:
    if process.is_alive() and process.pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, LAST_WORDS)


def _close_death(child: _Child) -> None:
    if child.death != child.process.sentinel:
        os.close(child.death)


def _await_ends(children: list[_Child], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    waiting = {child.death for child in children if child.process.is_alive()}
    while waiting and (remaining := deadline - time.monotonic()) > 0:
        waiting -= set(wait_for_any(list(waiting), remaining))


def close_all(things: Iterable[Any]) -> None:
    """Call the method `close` of each object that has it, and raise the first error after all calls."""
    errors = []
    for thing in things:
        close = getattr(thing, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:
                errors.append(error)
    if errors:
        raise errors[0]
