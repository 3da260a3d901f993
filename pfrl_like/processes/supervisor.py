"""`Workers`: child processes with pipes; their death is detected at once, and they never outlive their parent.

The programs that workers start do not outlive it either: each worker leads its own session, which ends with the worker
(see `worker`).
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

#: Seconds that a worker gets to end on its own, and then to end when interrupted, before it is killed; HURRY is for
#: `close(hurry=True)`.
PATIENCE, HURRY = (2.0, 1.0), (0.2, 0.2)

#: Seconds that a hanging worker gets to report a traceback, before its stack is read instead.
_WORDS = 1.0

#: Seconds after which a wait for one worker checks the others.
_GLANCE = 0.5

#: Types of the last message of a worker.
_NEWS = (Failure, Finished)

#: Most bytes read of a stack.
_MAX_WORDS = 1 << 16


@dataclass
class _Child:
    """A worker process, and the parent's state of it.

    Attributes:
        process: The process.
        channel: The parent's end of its pipe.
        words: Pipe with its stack, if it hangs.
        lifeline: Pipe that closes when this process ends, which ends the worker's session.
        started: Start time of the process.
        death: Descriptor that becomes readable when it ends; -1 before it has started.
        doorbell: Waits for this worker only.
        inbox: Messages that were read while `receive` waited for other workers.
        ended: True once its last message has arrived.
        answered: True once another message has arrived.
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

    Worker i runs `target(channel, i, *arguments[i])`, where `channel` is its end of a pipe. `wait` and `receive` return
    the messages that it sends; the last message is `Finished` or `Failure`.

    Args:
        target: The body of every worker; a module-level function or a `Portable`.
        arguments: One tuple of further arguments for each worker. Shared tensors, events and locks are passed as they
            are; functions that may be lambdas are passed as `Portable`.
        start_method: "fork", "spawn" or "forkserver"; None selects forkserver where available, else spawn.
        name: Name of the processes in a process list, before their number.

    Raises:
        ValueError: If the start method is not available.
        RuntimeError: If the processes cannot be started because the main script has no main guard, or because this
            process is daemonic.

    Attributes:
        closed: True once `close` has been called.
        is_elsewhere: True: the contents live in other processes, and a search for random streams skips them.
    """

    is_elsewhere = True

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
        self._doorbell = Doorbell()  # of all
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
        """Indices of the workers that have sent neither `Finished` nor `Failure`."""
        return frozenset(index for index, child in enumerate(self._children) if not child.ended)

    def send(self, index: int, message: Any, timeout: float | None = None) -> None:
        """Send a message to one worker.

        Args:
            index: Index of the worker.
            message: The message. The part that fits into the pipe is sent at once, the rest as the worker reads it.
            timeout: Seconds to wait at most, without effect on Windows; None for no limit.

        Raises:
            WorkerError: If that worker has ended, or exceeds the time limit, which ends it.
        """
        if self.closed or self._children[index].ended:
            raise WorkerError(index, "had ended before")
        try:
            if not self._children[index].channel.send(message):
                self._send_rest(index, Countdown(timeout))
        except OSError:  # its end of the pipe is closed
            raise self._ended(index) from None

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any]]:
        """Wait until some workers have sent something or ended.

        Args:
            timeout: Seconds to wait at most; None for no limit.

        Returns:
            Pairs of a worker's index and its next message; an ended worker's last one is `Finished` or `Failure`.
            Empty after the time-out, when all workers have ended, and if only a part of a message has arrived.
        """
        kept = [(index, child.inbox.popleft()) for index, child in enumerate(self._children) if child.inbox]
        if kept or not self.running:
            return kept
        news = [(index, self._read(index, speaks)) for index, speaks in self._doorbell.wait(timeout).items()]
        return [(index, message) for index, message in news if message is not UNFINISHED]

    def receive(self, indices: Iterable[int] | None = None, timeout: float | None = None) -> list[Any]:
        """Wait for one message from each of some workers.

        Args:
            indices: Indices of the workers, each of which has to send a message; None for all.
            timeout: Seconds to wait at most; None for no limit.

        Returns:
            The messages in the order of `indices`.

        Raises:
            WorkerError: If any worker raises or dies, or if one of these ends, or exceeds the time limit, which ends
                it. Messages from other workers are kept.
        """
        order = range(len(self)) if indices is None else list(indices)
        countdown = Countdown(timeout)
        messages: dict[int, Any] = {}
        try:
            for index in order:
                messages[index] = self._receive_from(index, countdown)
        except WorkerError:
            for index, message in messages.items():
                self._children[index].inbox.appendleft(message)  # for callers that continue without the failed one
            raise
        return list(messages.values())

    def interrupt(self, index: int) -> None:
        """Interrupt a worker by an exception, which ends it; a worker that cannot be interrupted continues."""
        _send_signal(self._children[index].process)

    def last_words(self, index: int) -> str:
        """End a hanging worker, if necessary by force; returns its traceback or stack, empty if there is none."""
        self.interrupt(index)
        countdown = Countdown(_WORDS)
        while not self._children[index].ended and (left := countdown.left()) > 0:
            for _, speaks in self._children[index].doorbell.wait(left).items():
                message = self._read(index, speaks)
                if isinstance(message, Failure) and message.traceback_text:
                    return message.traceback_text
        self._children[index].process.kill()  # now, so that nobody waits for it again
        return self.stack(index)

    def stack(self, index: int) -> str:
        """Stack that an interrupted worker has reported and that is not yet read; empty if there is none."""
        words = self._children[index].words
        return os.read(words.fileno(), _MAX_WORDS).decode(errors="replace") if words.poll() else ""

    def restart(self, index: int, arguments: tuple[Any, ...]) -> None:
        """End a worker by force, if it has not ended, and start another in its place."""
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
        """End every worker and wait for its end; a second call does nothing.

        Closes the pipes, which ends workers that read from them. Interrupts the remaining workers after 2 s, and kills
        them after another second.

        Args:
            hurry: Do this within a second.
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
        self._children[index : index + 1] = [child]  # now, so that a forked worker closes its copies
        try:
            with _interrupt_blocked():
                process.start()
        except BaseException as error:
            self.close()
            if isinstance(error, EOFError | ConnectionError):  # the fork server died while it imported the main script
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
            if child.death in dict(poll.poll(min(left, _GLANCE) * 1000)):  # its pipe may live on in another process
                raise self._ended(index)

    def _ended(self, index: int) -> WorkerError:
        """Error that says how a worker has ended; skips its earlier messages."""
        while True:
            for _, speaks in self._children[index].doorbell.wait(None).items():
                news = self._read(index, speaks)
                if isinstance(news, _NEWS):
                    return WorkerError(index, news.reason, news.traceback_text)

    def _late(self, index: int) -> WorkerError:
        return WorkerError(index, f"has not answered in time{self.limit()}", self.last_words(index))

    def limit(self) -> str:
        """Text that errors add about an exceeded time limit; subclasses override it."""
        return ""

    def _receive_from(self, index: int, countdown: Countdown) -> Any:
        """Next message of one worker; checks now and then whether another worker has died."""
        child = self._children[index]
        while not child.inbox:
            if self.closed or child.ended:
                raise WorkerError(index, "had ended before")
            left = countdown.left()
            rung = child.doorbell.wait(max(min(left, _GLANCE), 0.0))
            if not rung and left <= _GLANCE:
                raise self._late(index)
            for other, speaks in (rung or self._doorbell.wait(0.0)).items():
                message = self._read(other, speaks)
                if message is UNFINISHED:
                    if other == index and left <= 0:
                        raise self._late(index)
                elif not isinstance(message, _NEWS):
                    self._children[other].inbox.append(message)
                elif isinstance(message, Failure) or other == index:
                    raise WorkerError(other, message.reason, message.traceback_text)
        return child.inbox.popleft()

    def _read(self, index: int, speaks: bool = True) -> Any:
        """Next message of a worker, or `UNFINISHED` if a part of it has not arrived.

        If the worker has died and its pipe is silent (`speaks` is False), the message is a `Failure`: a child of the
        worker may hold the pipe open.
        """
        child = self._children[index]
        try:
            message = child.channel.recv() if speaks else self._death(index)
        except (EOFError, OSError):
            message = self._death(index)
        except Exception as error:
            message = Failure(f"sent what cannot be read here ({type(error).__name__}: {error})")
        if isinstance(message, _NEWS):
            child.ended = True
            self._doorbell.remove(index)
        elif message is not UNFINISHED:
            child.answered = True
        return message

    def _death(self, index: int) -> Failure:
        process = self._children[index].process
        if process.exitcode is None:  # its pipe may end a moment before the process
            process.join(timeout=1.0)
        code = process.exitcode
        if code is None:
            return Failure("has gone and left a process behind")
        if code < 0:
            names = {int(each): f" ({each.name})" for each in signal.Signals}
            return Failure(f"was killed by signal {-code}{names.get(-code, '')}")
        reason = f"ended with exit code {code} and told no error (os._exit does that); what it printed, if so, is above"
        if self.start_method != "fork" and not self._children[index].answered:  # it may not even have begun
            reason += f". If the script has no main guard, {GUARD_HINT}"
        return Failure(reason)


_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _close_inherited() -> None:
    """Close the parent's ends of all pipes in a forked worker, so that workers see the end of file when it dies."""
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
    """The process as a file descriptor where available, else the sentinel, which its children may hold open."""
    if hasattr(os, "pidfd_open") and process.pid is not None:
        with contextlib.suppress(OSError):  # an old kernel, or it has ended already
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
    finally:  # a second Ctrl-C comes here at once
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
    """Call the method `close` of each of several things, if it has one, and raise the first error afterwards."""
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
