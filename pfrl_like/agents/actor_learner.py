"""Actors in processes and a learner in a thread, around any agent with a replay buffer (after arXiv:1803.00933).

Actors (`agents/actor.py`) send their steps to the poller, a thread that puts them into the agent's replay buffer; the
learner, another, samples and updates. They take turns by a lock that neither can keep from the other.
"""

import contextlib
import os
import shutil
import socket
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge, wait
from typing import Any

from pfrl_like.agents.actor import HOLD, LISTENING, STEPS, ActorFactory
from pfrl_like.agents.shared_weights import SharedWeights
from pfrl_like.processes import SharedArrays
from pfrl_like.processes.shared_arrays import ensure_tracker
from pfrl_like.utils.checks import check_counts
from pfrl_like.utils.fair_lock import FairLock
from pfrl_like.utils.stoppable_thread import StoppableThread

#: Steps for which the learner may owe updates before the actors have to wait, with `updates_per_step`.
SLACK = 100

#: Seconds that the poller, asked to stop, goes on listening to actors that have not hung up.
GRACE = 2.0

Hook = Callable[[Any, Any, int], Any]


class FailureEvent(threading.Event):
    """Set when a thread has failed; `error` is what it raised."""

    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Keep the error and set the event."""
        self.error = error
        self.set()


class Representative:
    """The agent in the learner's process, between two updates, as runners see it.

    Args:
        agent: The agent.
        lock: Held meanwhile.
        counts: Arrays shared with the actors.
        weights: Published after loading.
    """

    def __init__(self, agent: Any, lock: FairLock, counts: SharedArrays, weights: SharedWeights) -> None:
        self.agent, self._lock, self._counts, self._weights = agent, lock, counts, weights

    @property
    def device(self) -> Any:
        """The agent's device."""
        return self.agent.device

    @contextlib.contextmanager
    def starting(self, t: int) -> Iterator[None]:
        """Within it actors are started, at step t; nobody holds a lock then that a forked process would inherit."""
        with self._lock:
            self._start_at(t)
            yield

    def save(self, dirname: str) -> None:
        """Save the agent."""
        with self._lock:
            self.agent.save(dirname)

    def load(self, dirname: str) -> None:
        """Load the agent; actors follow."""
        with self._lock:
            self.agent.load(dirname)
            self._weights.publish()
            self._start_at(self.agent.t)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """The agent's statistics."""
        with self._lock:
            statistics: list[tuple[str, Any]] = self.agent.get_statistics()
        return statistics

    def _start_at(self, t: int) -> None:
        steps = self._counts.arrays[STEPS]
        self.agent.t = t
        steps[0] = t - steps[1:].sum()


class Pace:
    """How many updates the steps that have come allow for, counted from the first update on.

    Args:
        updates_per_step: Updates for each step; None for as many as there is time for.
        counts: Arrays shared with the actors; HOLD is set while they had better wait.
    """

    def __init__(self, updates_per_step: float | None, counts: SharedArrays) -> None:
        self.updates_per_step, self._counts = updates_per_step, counts
        self._steps: int | None = None  # since the first update
        self._updates = 0

    def step(self) -> None:
        """A step has come."""
        if self._steps is not None:
            self._steps += 1

    def updated(self, learnt: bool) -> None:
        """The learner has made an update, or found that it cannot."""
        if learnt:
            self._steps = self._steps or 0
            self._updates += 1
        behind = self.updates_per_step is not None and self.owed > 1.0 + SLACK * self.updates_per_step
        self._counts.arrays[HOLD][0] = learnt and behind

    @property
    def owed(self) -> float:
        """Updates that the steps allow for and that have not been made; infinite without a limit."""
        if self.updates_per_step is None:
            return float("inf")
        return 1.0 if self._steps is None else 1.0 + self._steps * self.updates_per_step - self._updates


class Learner:
    """Body of the learner's thread: update, publish the parameters, call the hooks.

    Args:
        agent: The agent.
        lock: Held during an update.
        weights: Published after every `actor_update_interval` updates.
        pace: Says whether to update.
        stop_event: Ends the thread, and is set at its end.
        failure: Told of errors.
        n_updates: Updates after which it ends; None for no end.
        actor_update_interval: See `weights`.
        update_counter: Its `value` counts how often they were published.
        step_hooks: Called after every update with its number times the agent's `update_interval`.
        optimizer_step_hooks: Called after every update with its number.
    """

    def __init__(
        self,
        agent: Any,
        lock: FairLock,
        weights: SharedWeights,
        pace: Pace,
        stop_event: threading.Event,
        failure: FailureEvent,
        *,
        n_updates: int | None,
        actor_update_interval: int,
        update_counter: Any,
        step_hooks: Sequence[Hook],
        optimizer_step_hooks: Sequence[Hook],
    ) -> None:
        self.agent, self.lock, self.weights, self.pace = agent, lock, weights, pace
        self.stop_event, self.failure = stop_event, failure
        self.n_updates, self.actor_update_interval, self.update_counter = (
            n_updates,
            actor_update_interval,
            update_counter,
        )
        self.step_hooks, self.optimizer_step_hooks = step_hooks, optimizer_step_hooks
        self.news = threading.Event()  # steps have come
        self.updates = 0

    def run(self) -> None:
        """Update as often as there is something to learn from, until the event is set or `n_updates` are made."""
        try:
            while not self.stop_event.is_set():
                if self.updates == self.n_updates:
                    return
                with self.lock:
                    learnt = self._update()
                self.pace.updated(learnt)
                if not learnt:
                    self.news.wait(0.05)
                    self.news.clear()
        except BaseException as error:
            self.failure.fail(error)
        finally:
            self.pace.updated(False)
            self.stop_event.set()

    def _update(self) -> bool:
        agent, before = self.agent, self.agent.optim_t
        if len(agent.replay_buffer) < agent.replay_start_size or self.pace.owed < 1.0:
            return False
        agent.update_from_replay()
        if agent.optim_t == before:  # a recurrent agent that lacks episodes
            return False
        self.updates += 1
        if self.updates % self.actor_update_interval == 0:
            self.weights.publish()
            if self.update_counter is not None:
                with self.update_counter.get_lock():
                    self.update_counter.value += 1
        for hook in self.optimizer_step_hooks:
            hook(None, agent, agent.optim_t)
        for hook in self.step_hooks:
            hook(None, agent, agent.optim_t * agent.update_interval)
        return True


class Poller:
    """Body of the poller's thread: stores what the actors send, and does what they ask for.

    Args:
        representative: The agent.
        lock: What keeps the learner from it meanwhile.
        server: Where actors connect.
        key: What they have to know.
        learner: Told of news.
        stop_event: Ends the thread, once all actors have hung up or some seconds have passed.
        failure: Told of errors.
        counts: Arrays shared with the actors; LISTENING is set while the poller listens.
        release: Called at the end.
    """

    def __init__(
        self,
        representative: Representative,
        lock: FairLock,
        server: socket.socket,
        key: bytes,
        learner: Learner,
        stop_event: threading.Event,
        failure: FailureEvent,
        counts: SharedArrays,
        release: Callable[[], Any],
    ) -> None:
        self.representative, self.lock, self.server, self.key = representative, lock, server, key
        self.learner, self.stop_event, self.failure = learner, stop_event, failure
        self.counts, self.release = counts, release
        self.actors: dict[Connection, int] = {}
        self.had_actors = False

    def run(self) -> None:
        """Listen until asked to stop; after an error, until the last actor has gone."""
        try:
            self.counts.arrays[LISTENING][0] = 1
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
            self.counts.arrays[LISTENING][0] = 0
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
        except (OSError, EOFError):  # it has hung up, or died, perhaps in the middle of a message
            del self.actors[channel]
            channel.close()
            with self.lock:
                self.representative.agent.replay_buffer.stop_current_episode(index)
            return
        if kind == "rows":
            with self.lock:
                self._store(index, content)
        elif kind == "stop_episode":
            with self.lock:
                self.representative.agent.replay_buffer.stop_current_episode(index)
        else:
            channel.send(self._answer(kind, content))
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


def setup(
    agent: Any,
    n_actors: int,
    update_counter: Any,
    n_updates: int | None,
    actor_update_interval: int,
    step_hooks: Sequence[Hook],
    optimizer_step_hooks: Sequence[Hook],
    updates_per_step: float | None,
) -> tuple[ActorFactory, StoppableThread, StoppableThread, FailureEvent]:
    """What `OffPolicyAgent.setup_actor_learner_training` does, where the arguments are described."""
    check_counts(n_actors=n_actors, actor_update_interval=actor_update_interval)
    check_counts(optional=True, n_updates=n_updates)
    if updates_per_step is not None and not updates_per_step > 0:
        raise ValueError(f"updates_per_step is {updates_per_step!r}, expected a positive number, or None")
    ensure_tracker()
    weights = SharedWeights([getattr(agent, name) for name in agent.acting_attributes])
    counts = SharedArrays((((n_actors + 1,), "<i8"), ((1,), "|u1"), ((1,), "|u1")))
    counts.arrays[STEPS][0] = agent.t
    server, address, remove = _listen(n_actors)
    key, lock, failure = os.urandom(32), FairLock(), FailureEvent()
    representative = Representative(agent, lock, counts, weights)
    learner = Learner(
        agent, lock, weights, Pace(updates_per_step, counts), threading.Event(), failure, n_updates=n_updates,
        actor_update_interval=actor_update_interval, update_counter=update_counter, step_hooks=step_hooks,
        optimizer_step_hooks=optimizer_step_hooks,
    )  # fmt: skip

    def release() -> None:
        remove()
        for memory in (weights.memory, counts):
            memory.unlink()

    poller = Poller(
        representative, lock, server, key, learner, threading.Event(), failure, counts, release
    )  # fmt: skip
    make_actor = ActorFactory(
        agent.acting_copy(), agent.acting_attributes, address, key, (weights.memory.name, weights.memory.layout),
        (counts.name, counts.layout), representative,
    )  # fmt: skip
    threads = [
        StoppableThread(body.stop_event, target=body.run, name=name, daemon=True)
        for body, name in ((learner, "learner"), (poller, "poller"))
    ]
    return make_actor, threads[0], threads[1], failure


def _listen(n_actors: int) -> tuple[socket.socket, str, Callable[[], Any]]:
    """A socket in a folder of its own, its address, and what removes the folder, at the latest at exit."""
    folder = tempfile.mkdtemp(prefix="pl_")
    address = os.path.join(folder, "actors")
    server = socket.socket(socket.AF_UNIX)
    remove = weakref.finalize(server, _remove_folder, folder, os.getpid())
    server.bind(address)
    server.listen(n_actors)
    return server, address, remove


def _remove_folder(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked copy
        shutil.rmtree(folder, ignore_errors=True)
