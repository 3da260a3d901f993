"""The learner of an agent whose actors are other processes: a thread that samples and updates, at a pace."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from pfrl_like.distributed.actor import HOLD, SharedWeights
from pfrl_like.distributed.agent_proxy import AgentProxy, FairLock
from pfrl_like.processes import SharedArrays

#: Steps for which the learner may owe updates before the actors have to wait, with `updates_per_step`.
SLACK = 100

Hook = Callable[[Any, Any, int], Any]


class FailureEvent(threading.Event):
    """Set when a thread has failed; `error` is what it raised."""

    error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Keep the error and set the event."""
        self.error = error
        self.set()


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
        self._ended = False

    def step(self) -> None:
        """A step has come."""
        if self._steps is not None:
            self._steps += 1
            if self._is_behind:  # which the learner, if it does not get to run, would not say in time
                self._counts.arrays[HOLD][0] = True
            if self._ended:  # looked at last: the learner's thread may have ended in between
                self._counts.arrays[HOLD][0] = False

    def updated(self, learnt: bool) -> None:
        """The learner has made an update, or found that it cannot."""
        if learnt:
            self._steps = self._steps or 0
            self._updates += 1
        self._counts.arrays[HOLD][0] = learnt and self._is_behind

    def end(self) -> None:
        """No more updates come: nobody waits for them."""
        self._ended = True
        self._counts.arrays[HOLD][0] = False

    @property
    def _is_behind(self) -> bool:
        return self.updates_per_step is not None and self.owed > 1.0 + SLACK * self.updates_per_step

    @property
    def owed(self) -> float:
        """Updates that the steps allow for and that have not been made; infinite without a limit."""
        if self.updates_per_step is None:
            return float("inf")
        return 1.0 if self._steps is None else 1.0 + self._steps * self.updates_per_step - self._updates


class Learner:
    """Body of the learner's thread: update, publish the parameters, call the hooks.

    Args:
        representative: The agent; nothing is learnt once it is over.
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
        representative: AgentProxy,
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
        self.agent, self.over = representative.agent, representative.over
        self.lock, self.weights, self.pace = lock, weights, pace
        self.stop_event, self.failure = stop_event, failure
        self.n_updates, self.actor_update_interval = n_updates, actor_update_interval
        self.update_counter = update_counter
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
                    learnt = not self.over.is_set() and self._update()
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
