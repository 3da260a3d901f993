"""`Workers`: child processes with pipes.

The death of a worker is detected immediately. Workers end when their parent ends. Programs that a worker starts belong
to the worker's session, and end with the worker.
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
from pfrl_like.processes.pipe_end import UNFINISHED, Countdown, WaitingEnd, WorkerPoll, pipe_end
from pfrl_like.processes.worker import GUARD_HINT, REPORT_SIGNAL, Failure, Finished, context_of, end_groups, run_worker
from pfrl_like.utils.stoppable_thread import start_time

#: Two numbers of seconds: until a worker that should end is interrupted, and from then until it is killed.
#: `close(hurry=True)` uses HURRY.
PATIENCE, HURRY = (2.0, 1.0), (0.2, 0.2)

#: Seconds in which an interrupted worker must send a traceback. After this time, its stack is read from the stack pipe.
_REPORT_SECONDS = 1.0

#: Seconds between two checks of the other workers, while a function waits for one worker.
_CHECK_INTERVAL = 0.5

#: Types of a worker's last message.
_END_MESSAGES = (Failure, Finished)

#: Maximum number of bytes that are read from the stack pipe.
_MAX_STACK_BYTES = 1 << 16


@dataclass
class _Child:
    """A worker process, and the data that the parent stores about it.

    Attributes:
        process: The process.
        channel: The parent's end of the worker's pipe.
        stack_pipe: Pipe into which the worker writes its stack after the signal `REPORT_SIGNAL`.
        lifeline: Pipe that closes when this process ends. The worker's session then ends.
        started: Start time of the process.
        death: Descriptor that becomes readable when the process ends. -1 before the process has started.
        poll: Object that waits for this worker only.
        inbox: Messages that were read while `receive` waited for other workers.
        ended: True after the last message (`Finished` or `Failure`) has arrived.
        answered: True after a message that is not the last one has arrived.
    """

    process: BaseProcess
    channel: WaitingEnd
    stack_pipe: Connection
    lifeline: Connection
    started: int = 0
    death: int = -1
    poll: WorkerPoll = field(default_factory=WorkerPoll)
    inbox: deque[Any] = field(default_factory=deque)
    ended: bool = False
    answered: bool = False


class Workers:
    """Supervised worker processes.

    Worker i calls `target(channel, i, *arguments[i])`, where `channel` is the worker's end of a pipe. `wait` and
    `receive` return the messages that the worker sends. The last message is `Finished` or `Failure`.

    Args:
        target: Function that every worker calls; a module-level function or a `Portable`.
        arguments: One tuple of additional arguments per worker. Wrap functions that may be lambdas in `Portable`.
        start_method: "fork", "spawn" or "forkserver". If None, forkserver if it is available, otherwise spawn.
        name: Name of the processes. The worker's index is appended.

    Raises:
        ValueError: If the start method is not available.
        RuntimeError: If the processes cannot be started because the main script has no main guard, or because this
            process is daemonic.

    Attributes:
        closed: True after `close` was called.
        has_no_rng: True, so that the search for random streams skips this object. It has no random streams in this
            process.
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
        self._poll = WorkerPoll()  # waits for all workers
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
        """The processes, in the order of their indices."""
        return tuple(child.process for child in self._children)

    @property
    def running(self) -> frozenset[int]:
        """Indices of the workers that have not sent `Finished` or `Failure`."""
        return frozenset(index for index, child in enumerate(self._children) if not child.ended)

    def send(self, index: int, message: Any, timeout: float | None = None) -> None:
        """Send a message to one worker.

        Args:
            index: Index of the worker.
            message: The message. If the message does not fit into the pipe, this method waits for the worker to read.
            timeout: Maximum waiting time in seconds. None for no limit. On Windows there is no limit.

        Raises:
            WorkerError: If the worker has ended or exceeds the time limit. A worker that exceeds the limit is ended.
        """
        if self.closed or self._children[index].ended:
            raise WorkerError(index, "had ended before")
        try:
            if not self._children[index].channel.send(message):
                self._send_rest(index, Countdown(timeout))
        except OSError:  # the worker's end of the pipe is closed
            raise self._end_error(index) from None

    def wait(self, timeout: float | None = None) -> list[tuple[int, Any]]:
        """Wait until at least one worker has sent a message or ended.

        Args:
            timeout: Maximum waiting time in seconds. None for no limit.

        Returns:
            Pairs of a worker's index and its next message. The last message of a worker that has ended is `Finished` or
            `Failure`. The list is empty if the time limit is exceeded, if all workers have ended, or if only a part of
            a message has arrived.
        """
        kept = [(index, child.inbox.popleft()) for index, child in enumerate(self._children) if child.inbox]
        if kept or not self.running:
            return kept
        new = [(index, self._read(index, has_data)) for index, has_data in self._poll.wait(timeout).items()]
        return [(index, message) for index, message in new if message is not UNFINISHED]

    def receive(self, indices: Iterable[int] | None = None, timeout: float | None = None) -> list[Any]:
        """Wait for one message from each worker in `indices`.

        Args:
            indices: Indices of the workers that must each send a message. None for all workers.
            timeout: Maximum waiting time in seconds. None for no limit.

        Returns:
            The messages in the order of `indices`.

        Raises:
            WorkerError: If any worker raises an error or dies, or if a worker in `indices` finishes or exceeds the time
                limit. A worker that exceeds the time limit is ended. Messages of other workers are kept.
        """
        order = range(len(self)) if indices is None else list(indices)
        countdown = Countdown(timeout)
        messages: dict[int, Any] = {}
        try:
            for index in order:
                messages[index] = self._receive_from(index, countdown)
        except WorkerError:
            for index, message in messages.items():
                # Keep the messages for callers that continue without the failed worker.
                self._children[index].inbox.appendleft(message)
            raise
        return list(messages.values())

    def interrupt(self, index: int) -> None:
        """Send a signal that raises SystemExit in a worker. A worker that is blocked in C code does not end."""
        _send_signal(self._children[index].process)

    def end_hanging(self, index: int) -> str:
        """End a hanging worker, if necessary by force. Return its traceback or stack, or "" if neither is available."""
        self.interrupt(index)
        countdown = Countdown(_REPORT_SECONDS)
        while not self._children[index].ended and (left := countdown.left()) > 0:
            for _, has_data in self._children[index].poll.wait(left).items():
                message = self._read(index, has_data)
                if isinstance(message, Failure) and message.traceback_text:
                    return message.traceback_text
        self._children[index].process.kill()  # so that no later call waits for the worker
        return self.stack(index)

    def stack(self, index: int) -> str:
        """Return the stack that an interrupted worker has written to its stack pipe; "" if it has written none."""
        stack_pipe = self._children[index].stack_pipe
        return os.read(stack_pipe.fileno(), _MAX_STACK_BYTES).decode(errors="replace") if stack_pipe.poll() else ""

    def restart(self, index: int, arguments: tuple[Any, ...]) -> None:
        """Kill a worker if it has not ended, and start a new worker with its index."""
        child = self._children[index]
        child.process.kill()
        child.process.join(timeout=5.0)
        end_groups([(child.process.pid or 0, child.started)], HURRY[1])
        if not child.ended:
            self._poll.remove(index)
        child.channel.close()
        _close_death(child)
        self._start(index, arguments)

    def close(self, *, hurry: bool = False) -> None:
        """End all workers and wait until they have ended. A second call does nothing.

        This method closes the pipes. Workers that read from a pipe then end. It interrupts the remaining workers after
        2 s, and kills the remaining workers after another second.

        Args:
            hurry: True to interrupt the workers after 0.2 s, and to kill them after another 0.2 s.
        """
        self.closed = True
        _open.discard(self)
        if self._finalizer.detach() is not None:
            _shut_down(self._children, self._owner, HURRY if hurry else PATIENCE)

    def _start(self, index: int, arguments: tuple[Any, ...]) -> None:
        parent_end, worker_end = self._context.Pipe()
        stack_pipe, to_stack_pipe = self._context.Pipe(duplex=False)
        lifeline, to_lifeline = self._context.Pipe(duplex=False)
        args = self._target, worker_end, index, arguments, _close_inherited, to_stack_pipe, lifeline
        process = self._context.Process(target=run_worker, args=args, name=f"{self._name}-{index}", daemon=True)
        child = _Child(process, pipe_end(parent_end), stack_pipe, to_lifeline)
        self._children[index : index + 1] = [child]  # a forked worker closes its copies of these pipes
        try:
            with _interrupt_blocked():
                process.start()
        except BaseException as error:
            self.close()
            if isinstance(error, EOFError | ConnectionError):  # the fork server died while importing the main script
                raise RuntimeError(f"worker {index} could not be started; {GUARD_HINT}") from error
            raise
        finally:
            for end in (worker_end, to_stack_pipe, lifeline):
                end.close()
        child.started, child.death = start_time(process.pid or 0), _death_descriptor(process)
        for poll in (self._poll, child.poll):
            poll.add(index, child.channel.connection, child.death)

    def _send_rest(self, index: int, countdown: Countdown) -> None:
        child, poll = self._children[index], select.poll()
        poll.register(child.channel.connection.fileno(), select.POLLOUT)
        poll.register(child.death, select.POLLIN)
        while not child.channel.flush():
            left = countdown.left()
            if left <= 0:
                raise self._timeout_error(index)
            # The death is checked, too, because the pipe of a dead worker may stay open.
            if child.death in dict(poll.poll(min(left, _CHECK_INTERVAL) * 1000)):
                raise self._end_error(index)

    def _end_error(self, index: int) -> WorkerError:
        """Wait for the last message of a worker, and return an error that describes how the worker has ended."""
        while True:
            for _, has_data in self._children[index].poll.wait(None).items():
                message = self._read(index, has_data)
                if isinstance(message, _END_MESSAGES):
                    return WorkerError(index, message.reason, message.traceback_text)

    def _timeout_error(self, index: int) -> WorkerError:
        return WorkerError(index, f"has not answered in time{self.limit()}", self.end_hanging(index))

    def limit(self) -> str:
        """Return the end of an error message about an exceeded time limit. Subclasses override this method."""
        return ""

    def _receive_from(self, index: int, countdown: Countdown) -> Any:
        """Return the next message of one worker. Raise an error if any worker has died."""
        child = self._children[index]
        while not child.inbox:
            if self.closed or child.ended:
                raise WorkerError(index, "had ended before")
            left = countdown.left()
            readable = child.poll.wait(max(min(left, _CHECK_INTERVAL), 0.0))
            if not readable and left <= _CHECK_INTERVAL:
                raise self._timeout_error(index)
            for other, has_data in (readable or self._poll.wait(0.0)).items():
                message = self._read(other, has_data)
                if message is UNFINISHED:
                    if other == index and left <= 0:
                        raise self._timeout_error(index)
                elif not isinstance(message, _END_MESSAGES):
                    self._children[other].inbox.append(message)
                elif isinstance(message, Failure) or other == index:
                    raise WorkerError(other, message.reason, message.traceback_text)
        return child.inbox.popleft()

    def _read(self, index: int, has_data: bool = True) -> Any:
        """Return the next message of a worker, or `UNFINISHED` if only a part has arrived.

        If `has_data` is False, the worker has died and its pipe contains no data. The message is then a `Failure`. The
        pipe may still be open, because a child process of the worker keeps it open.
        """
        child = self._children[index]
        try:
            message = child.channel.recv() if has_data else self._death_message(index)
        except (EOFError, OSError):
            message = self._death_message(index)
        except Exception as error:
            message = Failure(f"sent a message that cannot be unpickled ({type(error).__name__}: {error})")
        if isinstance(message, _END_MESSAGES):
            child.ended = True
            self._poll.remove(index)
        elif message is not UNFINISHED:
            child.answered = True
        return message

    def _death_message(self, index: int) -> Failure:
        process = self._children[index].process
        if process.exitcode is None:  # a pipe may close shortly before its process ends
            process.join(timeout=1.0)
        code = process.exitcode
        if code is None:
            return Failure("has ended, but a process that it started is still running")
        if code < 0:
            names = {int(each): f" ({each.name})" for each in signal.Signals}
            return Failure(f"was killed by signal {-code}{names.get(-code, '')}")
        reason = f"ended with exit code {code} without an error message (for example os._exit); see its output above"
        # The function of a worker that has sent no message may not have started.
        if self.start_method != "fork" and not self._children[index].answered:
            reason += f". If the script has no main guard, {GUARD_HINT}"
        return Failure(reason)


_open: "weakref.WeakSet[Workers]" = weakref.WeakSet()


def _close_inherited() -> None:
    """Close the parent's ends of all pipes in a forked worker, so that workers notice when the parent dies."""
    for workers in list(_open):
        for child in workers._children:
            for end in (child.channel, child.stack_pipe, child.lifeline):
                end.close()


@contextlib.contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Block Ctrl-C while a process starts. The process inherits the block, and so does not print a long traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _death_descriptor(process: BaseProcess) -> int:
    """Return a file descriptor of the process; if the system has none, return the sentinel of the process."""
    if hasattr(os, "pidfd_open") and process.pid is not None:
        with contextlib.suppress(OSError):  # an old kernel, or the process has already ended
            return os.pidfd_open(process.pid)
    return process.sentinel


def _shut_down(children: list[_Child], owner: int, patience: tuple[float, float] | None = None) -> None:
    if os.getpid() != owner:  # a forked copy of the owner must not end these workers
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
    finally:
        # This code also runs if a second Ctrl-C interrupts the waiting.
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
            os.kill(process.pid, REPORT_SIGNAL)


def _close_death(child: _Child) -> None:
    if child.death != child.process.sentinel:
        os.close(child.death)


def _await_ends(children: list[_Child], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    waiting = {child.death for child in children if child.process.is_alive()}
    while waiting and (remaining := deadline - time.monotonic()) > 0:
        waiting -= set(wait_for_any(list(waiting), remaining))


def close_all(things: Iterable[Any]) -> None:
    """Call `close` of each object that has this method. After all calls, raise the first error that occurred."""
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
