"""The learner's process: the threads that update the agent and serve its actors, and proxies of the agent.

The learner's thread samples and updates, at a limited rate. The poller's thread stores the steps that actors send.
`AgentProxy` is the agent as actors see it, `RunnersAgentProxy` the agent as runners see it.
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

#: Steps by which the learner may be behind `updates_per_step` before the actors have to wait.
SLACK = 100
#: Seconds for which the poller, once asked to stop, still listens to connected actors.
GRACE = 2.0

Hook = Callable[[Any, Any, int], Any]


class FairLock:
    """A lock that waiting threads get before a thread that acquires it again at once."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._gate:  # held while waiting, so that the last holder queues behind
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


#: Suffixes of a run's last save, after the step number.
LAST_SAVES = ("_finish", "_except")


@dataclass(eq=False)
class AgentProxy:
    """The agent in the learner's process, as its actors see it; they access it between two updates.

    Args:
        agent: The agent.
        lock: Held during access to the agent.
        counts: Arrays shared with the actors.
        weights: Shared parameters, published after loading.
        over: Set, with the lock held, once nothing may change the agent.
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
        """Context in which actors are started, at step t.

        It holds the agent's lock, so that the other threads hold no lock that a forked process would inherit.
        """
        with self.lock:
            self._start_at(t)
            yield

    def save(self, dirname: str) -> None:
        """Save the agent."""
        with self.lock:
            self.agent.save(dirname)

    def load(self, dirname: str) -> None:
        """Load the agent, and give the actors its parameters and step."""
        with self.lock:
            self.agent.load(dirname)
            self.weights.publish()
            self._start_at(self.agent.t)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """The agent's statistics."""
        with self.lock:
            return list(self.agent.get_statistics())

    def _start_at(self, t: int) -> None:
        steps = self.counts.arrays[STEPS]
        self.agent.t = t
        steps[0] = t - steps[1:].sum()


class RunnersAgentProxy(AgentProxy):
    """The agent as a runner sees it: it does not change after the last save of a run."""

    def save(self, dirname: str) -> None:
        """Save the agent; after `<t>_finish` or `<t>_except` it neither learns nor stores steps."""
        if os.fspath(dirname).endswith(LAST_SAVES):
            with self.lock:
                self.over.set()
        super().save(dirname)


class FailureEvent(threading.Event):
    """Event that is set when a thread fails; `error` is the exception."""

    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Store the error and set the event."""
        self.error = error
        self.set()


class Pace:
    """Limits updates to a number per received step, counted from the first update.

    Args:
        updates_per_step: Updates for each step; None for no limit.
        counts: Arrays shared with the actors; HOLD is set while they have to wait.
    """

    def __init__(self, updates_per_step: float | None, counts: SharedArrays) -> None:
        self.updates_per_step, self._counts = updates_per_step, counts
        self._steps: int | None = None  # since the first update
        self._updates = 0
        self._ended = False

    def step(self) -> None:
        """Count a received step."""
        if self._steps is not None:
            self._steps += 1
            if self._is_behind:  # the learner's thread may not run in time to set it
                self._counts.arrays[HOLD][0] = True
            if self._ended:  # checked last: the learner's thread may have ended in between
                self._counts.arrays[HOLD][0] = False

    def updated(self, learnt: bool) -> None:
        """Count an update if the learner has made one (`learnt`), and set or clear HOLD."""
        if learnt:
            self._steps = self._steps or 0
            self._updates += 1
        self._counts.arrays[HOLD][0] = learnt and self._is_behind

    def end(self) -> None:
        """Clear HOLD for good: no more updates are made, and no actor waits."""
        self._ended = True
        self._counts.arrays[HOLD][0] = False

    @property
    def _is_behind(self) -> bool:
        return self.updates_per_step is not None and self.owed > 1.0 + SLACK * self.updates_per_step

    @property
    def owed(self) -> float:
        """Updates that the steps allow and that are not yet made; infinite without a limit."""
        if self.updates_per_step is None:
            return float("inf")
        return 1.0 if self._steps is None else 1.0 + self._steps * self.updates_per_step - self._updates


@dataclass(eq=False)
class Learner:
    """Body of the learner's thread: update, publish the parameters, call the hooks.

    Args:
        representative: The agent; no update is made once `over` is set.
        pace: Decides whether to update.
        stop_event: Ends the thread, and is set at its end.
        failure: Receives errors.
        n_updates: Updates after which the thread ends; None for no end.
        actor_update_interval: Updates after which the parameters are published.
        update_counter: Its `value` counts the publications; None for no counter.
        step_hooks: Called after every update with its number times the agent's `update_interval`.
        optimizer_step_hooks: Called after every update with its number.
        news: Set when an actor has sent something.
        updates: Updates so far.
    """

    representative: AgentProxy
    pace: Pace
    stop_event: threading.Event
    failure: FailureEvent
    n_updates: int | None
    actor_update_interval: int
    update_counter: Any
    step_hooks: Sequence[Hook]
    optimizer_step_hooks: Sequence[Hook]
    news: threading.Event = field(default_factory=threading.Event)
    updates: int = 0

    def run(self) -> None:
        """Update whenever there are steps to learn from, until the event is set or `n_updates` are made."""
        try:
            while not self.stop_event.is_set():
                if self.updates == self.n_updates:
                    return
                with self.representative.lock:
                    learnt = not self.representative.over.is_set() and self._update()
                self.pace.updated(learnt)
                if not learnt:
                    self.news.wait(0.05)
                    self.news.clear()
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.pace.end()
            self.stop_event.set()

    def _update(self) -> bool:
        agent = self.representative.agent
        before = agent.optim_t
        if len(agent.replay_buffer) < agent.replay_start_size or self.pace.owed < 1.0:
            return False
        agent.update_from_replay()
        if agent.optim_t == before:  # a recurrent agent that lacks episodes
            return False
        self.updates += 1
        if self.updates % self.actor_update_interval == 0:
            self.representative.weights.publish()
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
    """Body of the poller's thread: stores the steps that actors send, and answers their requests.

    Args:
        representative: The agent; its lock is held during access.
        server: Socket that actors connect to.
        key: Authentication key of the actors.
        learner: The learner, whose `news` is set after each message.
        stop_event: Ends the thread, once all actors have disconnected or `GRACE` seconds have passed.
        failure: Receives errors.
        release: Called at the end.
        actors: Number of the actor at each connection.
        had_actors: True once an actor has connected.
    """

    representative: AgentProxy
    server: socket.socket
    key: bytes
    learner: Learner
    stop_event: threading.Event
    failure: FailureEvent
    release: Callable[[], Any]
    actors: dict[Connection, int] = field(default_factory=dict)
    had_actors: bool = False

    def run(self) -> None:
        """Listen until asked to stop; after an error, until the last actor has disconnected."""
        try:
            self.representative.counts.arrays[LISTENING][0] = 1
            asked_at: float | None = None
            while True:
                if self._is_over and asked_at is None:
                    asked_at = time.monotonic()
                if asked_at is not None and (not self.actors or time.monotonic() > asked_at + GRACE):
                    return
                for source in wait([self.server, *self.actors], timeout=0.05):
                    if source is self.server:
                        self._welcome()
                    elif isinstance(source, Connection):
                        self._read(source)
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.representative.counts.arrays[LISTENING][0] = 0
            for channel in self.actors:
                channel.close()
            self.server.close()
            self.release()

    @property
    def _is_over(self) -> bool:
        return self.stop_event.is_set() or (self.failure.is_set() and self.had_actors and not self.actors)

    def _welcome(self) -> None:
        channel = Connection(self.server.accept()[0].detach())
        try:
            deliver_challenge(channel, self.key)
            answer_challenge(channel, self.key)
            self.actors[channel] = channel.recv()
            self.had_actors = True
        except (OSError, EOFError):  # it died, or was no actor
            channel.close()

    def _read(self, channel: Connection) -> None:
        index = self.actors[channel]
        try:
            kind, content = channel.recv()
        except (OSError, EOFError):  # it has disconnected or died, perhaps in the middle of a message
            del self.actors[channel]
            channel.close()
            kind = "stop_episode"
        if kind == "rows":
            with self.representative.lock:
                if not self.representative.over.is_set():
                    self._store(index, content)
        elif kind == "stop_episode":
            with self.representative.lock:
                self.representative.agent.replay_buffer.stop_current_episode(index)
        else:
            send(channel, self._answer(kind, content))
        self.learner.news.set()

    def _store(self, index: int, columns: Any) -> None:
        agent = self.representative.agent
        for obs, action, reward, next_obs, terminated, truncated, extra in zip(*columns, strict=True):
            further = {name: [value] for name, value in extra.items()}
            agent.replay_buffer.append_batch(
                [obs], [action], [reward], [next_obs], [terminated], [truncated], [index], **further
            )
            agent.count_step()
            self.learner.pace.step()

    def _answer(self, kind: str, content: Any) -> tuple[bool, Any]:
        if kind == "hang_up":
            return True, None
        try:
            method = getattr(self.representative, kind)
            return True, method() if content is None else method(content)
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"


def listen(n_actors: int) -> tuple[socket.socket, str | bytes, Callable[[], Any]]:
    """Open a socket for actors; returns it, its address, and a function that removes the address.

    The address is removed at exit at the latest. On Linux it is a name that exists as long as the process, however that
    ends; elsewhere it is a file in a folder of its own.
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
    if os.getpid() == owner:  # not in a forked copy
        shutil.rmtree(folder, ignore_errors=True)
