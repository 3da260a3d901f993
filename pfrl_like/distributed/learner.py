"""Threads of the learner's process, and proxies through which actors and runners access the agent.

The learner's thread samples minibatches and makes updates, at a limited rate. The poller's thread stores the steps that
actors send.
"""

import contextlib
import os
import shutil
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import Any

from pfrl_like.distributed.actor import HOLD, LISTENING, STEPS, SharedWeights
from pfrl_like.processes import SharedArrays, send

#: Actors wait if the learner has not yet made the updates for more than this number of steps.
SLACK = 100
#: Maximum number of seconds for which the poller serves connected actors after a request to stop.
GRACE = 2.0

Hook = Callable[[Any, Any, int], Any]


class FairLock:
    """Lock that threads acquire in the order in which they ask for it."""

    def __init__(self) -> None:
        self._queue = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._queue:  # the first waiting thread holds `_queue`; all others wait behind it
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@dataclass(eq=False)
class AgentProxy:
    """Proxy of the agent for the actors. All accesses to the agent take place between two updates.

    Args:
        agent: The agent.
        lock: Lock that a thread holds during every access to the agent.
        counts: Arrays shared with the actors.
        weights: Parameters shared with the actors.
        over: Event. After it is set, the agent must not change any more. The thread that sets it holds the lock.
    """

    agent: Any
    lock: FairLock
    counts: SharedArrays
    weights: SharedWeights
    over: threading.Event

    @property
    def device(self) -> Any:
        """The agent's device."""
        return self.agent.device

    @contextlib.contextmanager
    def starting(self, t: int) -> Iterator[None]:
        """Return a context manager in which actors are started, at step t.

        The context holds the agent's lock. Otherwise a forked process could inherit a lock that another thread holds.
        """
        with self.lock:
            self._start_at(t)
            yield

    def save(self, dirname: str) -> None:
        """Save the agent."""
        with self.lock:
            self.agent.save(dirname)

    def load(self, dirname: str) -> None:
        """Load the agent, and send its parameters and number of steps to the actors."""
        with self.lock:
            self.agent.load(dirname)
            self.weights.publish()
            self._start_at(self.agent.t)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the agent's statistics."""
        with self.lock:
            return list(self.agent.get_statistics())

    def _start_at(self, t: int) -> None:
        steps = self.counts.arrays[STEPS]
        self.agent.t = t
        steps[0] = t - steps[1:].sum()


class AgentProxyForRunner(AgentProxy):
    """Proxy of the agent for the runner. After the last save of a run, the agent does not change any more."""

    def save(self, dirname: str) -> None:
        """Save the agent. After a save as `<t>_finish` or `<t>_except`, the agent neither learns nor stores steps."""
        if os.fspath(dirname).endswith(("_finish", "_except")):
            with self.lock:
                self.over.set()
        super().save(dirname)


class FailureEvent(threading.Event):
    """Event that is set when a thread fails. `error` is the exception."""

    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Store the error and set the event."""
        self.error = error
        self.set()


class Pace:
    """Limit of the number of updates per received step. Updates and steps are counted from the first update.

    Args:
        updates_per_step: Number of updates per step. If None, there is no limit.
        counts: Arrays shared with the actors. `HOLD` is 1 while the actors must wait.
    """

    def __init__(self, updates_per_step: float | None, counts: SharedArrays) -> None:
        self.updates_per_step, self._counts = updates_per_step, counts
        self._steps: int | None = None  # steps since the first update
        self._updates = 0
        self._ended = False

    def step(self) -> None:
        """Count a received step."""
        if self._steps is not None:
            self._steps += 1
            if self._is_behind:  # set HOLD here, too, because the next call of `updated` may come too late
                self._counts.arrays[HOLD][0] = True
            if self._ended:  # last check, because another thread may have called `end` since
                self._counts.arrays[HOLD][0] = False

    def updated(self, has_updated: bool) -> None:
        """Count an update if `has_updated` is True. Then set HOLD to 1 if the learner is behind, otherwise to 0."""
        if has_updated:
            self._steps = self._steps or 0
            self._updates += 1
        self._counts.arrays[HOLD][0] = has_updated and self._is_behind

    def end(self) -> None:
        """Set HOLD to 0 permanently, because the learner makes no more updates."""
        self._ended = True
        self._counts.arrays[HOLD][0] = False

    @property
    def _is_behind(self) -> bool:
        return self.updates_per_step is not None and self.owed > 1.0 + SLACK * self.updates_per_step

    @property
    def owed(self) -> float:
        """Number of updates that may be made now. Infinite if there is no limit."""
        if self.updates_per_step is None:
            return float("inf")
        return 1.0 if self._steps is None else 1.0 + self._steps * self.updates_per_step - self._updates


@dataclass(eq=False)
class Learner:
    """Body of the learner's thread. It makes updates, publishes the parameters and calls the hooks.

    Args:
        proxy: Proxy of the agent. No update is made after its event `over` is set.
        pace: Limit of the number of updates.
        stop_event: Event that ends the thread. The thread also sets it at the end of `run`.
        failure: Event that is set if the thread fails. Its attribute `error` is then the exception.
        n_updates: Number of updates after which the thread ends. If None, there is no limit.
        actor_update_interval: Number of updates between publications of the parameters.
        update_counter: Object whose attribute `value` counts the publications. If None, nothing is counted.
        step_hooks: Functions called after every update as (None, agent, step). `step` is the agent's number of updates
            times `update_interval`.
        optimizer_step_hooks: Functions called after every update as (None, agent, number of updates).
        message_event: Event that is set when an actor has sent a message. The thread then tries to make updates.
        updates: Number of updates so far.
    """

    proxy: AgentProxy
    pace: Pace
    stop_event: threading.Event
    failure: FailureEvent
    n_updates: int | None
    actor_update_interval: int
    update_counter: Any
    step_hooks: Sequence[Hook]
    optimizer_step_hooks: Sequence[Hook]
    message_event: threading.Event = field(default_factory=threading.Event)
    updates: int = 0

    def run(self) -> None:
        """Make updates as the received steps allow, until `stop_event` is set or `n_updates` updates are made."""
        try:
            while not self.stop_event.is_set():
                if self.updates == self.n_updates:
                    return
                with self.proxy.lock:
                    has_updated = not self.proxy.over.is_set() and self._update()
                self.pace.updated(has_updated)
                if not has_updated:
                    self.message_event.wait(0.05)
                    self.message_event.clear()
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.pace.end()
            self.stop_event.set()

    def _update(self) -> bool:
        agent = self.proxy.agent
        before = agent.optim_t
        if len(agent.replay_buffer) < agent.replay_start_size or self.pace.owed < 1.0:
            return False
        agent.update_from_replay()
        if agent.optim_t == before:  # no update was made: the buffer of a recurrent agent has too few episodes
            return False
        self.updates += 1
        if self.updates % self.actor_update_interval == 0:
            self.proxy.weights.publish()
            if self.update_counter is not None:
                with self.update_counter.get_lock():
                    self.update_counter.value += 1
        for hook in self.optimizer_step_hooks:
            hook(None, agent, agent.optim_t)
        for hook in self.step_hooks:
            hook(None, agent, agent.optim_t * agent.update_interval)
        return True


@dataclass(eq=False)
class Poller:
    """Body of the poller's thread. It stores the steps that actors send, and answers their requests.

    Args:
        proxy: Proxy of the agent. The thread holds its lock during every access to the agent.
        server: Socket that actors connect to.
        key: Authentication key of the actors.
        learner: The learner. Its `message_event` is set after each message.
        stop_event: Event that ends the thread. The thread then waits until all actors have disconnected, at most
            `GRACE` seconds.
        failure: Event that is set if the thread fails. Its attribute `error` is then the exception.
        release: Function that is called when the thread ends.
        actors: Indices of the connected actors, keyed by their connections.
        had_actors: True after an actor has connected.
    """

    proxy: AgentProxy
    server: socket.socket
    key: bytes
    learner: Learner
    stop_event: threading.Event
    failure: FailureEvent
    release: Callable[[], Any]
    actors: dict[Connection, int] = field(default_factory=dict)
    had_actors: bool = False

    def run(self) -> None:
        """Serve the actors until `stop_event` is set. After an error, serve until the last actor has disconnected."""
        try:
            self.proxy.counts.arrays[LISTENING][0] = 1
            stop_requested_at: float | None = None
            while True:
                has_failed = self.failure.is_set() and self.had_actors and not self.actors
                if (self.stop_event.is_set() or has_failed) and stop_requested_at is None:
                    stop_requested_at = time.monotonic()
                if stop_requested_at is not None and (not self.actors or time.monotonic() > stop_requested_at + GRACE):
                    return
                for source in wait([self.server, *self.actors], timeout=0.05):
                    if source is self.server:
                        self._accept()
                    elif isinstance(source, Connection):
                        self._read(source)
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.proxy.counts.arrays[LISTENING][0] = 0
            for channel in self.actors:
                channel.close()
            self.server.close()
            self.release()

    def _accept(self) -> None:
        channel = Connection(self.server.accept()[0].detach())
        try:
            deliver_challenge(channel, self.key)
            answer_challenge(channel, self.key)
            self.actors[channel] = channel.recv()
            self.had_actors = True
        except (OSError, EOFError):  # the actor died, or the client was not an actor
            channel.close()

    def _read(self, channel: Connection) -> None:
        index = self.actors[channel]
        try:
            kind, content = channel.recv()
        except (OSError, EOFError):  # the actor has disconnected or died
            del self.actors[channel]
            channel.close()
            kind = "stop_episode"
        if kind == "rows":
            with self.proxy.lock:
                if not self.proxy.over.is_set():
                    self._store(index, content)
        elif kind == "stop_episode":
            with self.proxy.lock:
                self.proxy.agent.replay_buffer.stop_current_episode(index)
        else:
            send(channel, self._answer(kind, content))
        self.learner.message_event.set()

    def _store(self, index: int, columns: Any) -> None:
        agent = self.proxy.agent
        for obs, action, reward, next_obs, terminated, truncated, extra in zip(*columns, strict=True):
            values = {name: [value] for name, value in extra.items()}
            agent.replay_buffer.append_batch(
                [obs], [action], [reward], [next_obs], [terminated], [truncated], [index], **values
            )
            agent.count_step()
            self.learner.pace.step()

    def _answer(self, kind: str, content: Any) -> tuple[bool, Any]:
        if kind == "hang_up":
            return True, None
        try:
            method = getattr(self.proxy, kind)
            return True, method() if content is None else method(content)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"


def listen(n_actors: int) -> tuple[socket.socket, str | bytes, Callable[[], Any]]:
    """Open a socket for actors. Return the socket, its address, and a function that removes the address.

    On Linux, the address is a name that the kernel removes at the end of the process. On other systems, the address is
    a file in a temporary folder. If the returned function is not called, the folder is removed at exit.
    """
    server = socket.socket(socket.AF_UNIX)
    if sys.platform == "linux":
        server.bind(b"")  # the kernel finds a free name
        remove: Callable[[], Any] = contextlib.nullcontext  # there is nothing to remove
    else:
        folder = tempfile.mkdtemp(prefix="pl_")
        remove = weakref.finalize(server, _remove_folder, folder, os.getpid())
        server.bind(os.path.join(folder, "actors"))
    server.listen(n_actors)
    return server, server.getsockname(), remove


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a forked copy of the process must not remove the folder
        shutil.rmtree(folder, ignore_errors=True)
