"""`AgentProxy`: an agent whose actors are other processes, as these and runners see it; and a fair lock for them."""

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any

from pfrl_like.distributed.actor import STEPS, SharedWeights
from pfrl_like.processes import SharedArrays


class FairLock:
    """A lock for threads of which one takes it again at once: a `threading.Lock` would keep the others waiting."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._gate:  # held while waiting, so that the last holder queues behind
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


#: What the last save of a run is called, after the number of its step.
LAST_SAVES = ("_finish", "_except")


class AgentProxy:
    """The agent in the learner's process, between two updates, as its actors see it.

    Args:
        agent: The agent.
        lock: Held meanwhile.
        counts: Arrays shared with the actors.
        weights: Published after loading.
        over: Set, with the lock held, when nothing may change the agent any more.
    """

    def __init__(
        self, agent: Any, lock: FairLock, counts: SharedArrays, weights: SharedWeights, over: threading.Event
    ) -> None:
        self.agent, self.over = agent, over
        self._lock, self._counts, self._weights = lock, counts, weights

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


class RunnersAgentProxy(AgentProxy):
    """The agent as a runner sees it, whose last save of a run is the agent's end: it stays as it was saved."""

    def save(self, dirname: str) -> None:
        """Save the agent; after `<t>_finish` or `<t>_except` it neither learns nor takes in steps."""
        if os.fspath(dirname).endswith(LAST_SAVES):
            with self._lock:
                self.over.set()
        super().save(dirname)
