"""`DistributedSource`: a source of training steps that actors make, for the training loop of all runners."""

import contextlib
import dataclasses
import json
import math
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from pfrl_like.experiments.cluster.actors import EnvActors
from pfrl_like.experiments.cluster.env_actor import Answer, acting_tensors, explorer_numbers, pack_weights
from pfrl_like.experiments.cluster.learners import Learners, update_once
from pfrl_like.experiments.cluster.replay_journal import JournaledBuffer
from pfrl_like.experiments.sources import dry_run, stop_episode
from pfrl_like.learning.chunks import count_step
from pfrl_like.runs.loop import Clock, Episode, unknown_state
from pfrl_like.runs.run_files import LOSSES

#: How the answers of actors are read: as they arrive, or in the order of the requests.
Order = Literal["arrival", "fixed"]
_ARRIVAL = 'actors are read as they answer, so that two runs differ: pass order="fixed"'
#: Number of answers in the statistics of their age.
_WINDOW = 100
#: Size of `losses.json` in bytes.
_MAX_LOSSES_BYTES = 256


@dataclasses.dataclass(frozen=True)
class MessageSize:
    """Number of steps in the message of an actor.

    Attributes:
        seconds: Number of seconds of stepping that one message contains.
        least: Minimum number of steps, summed over the environments of the actor.
        most: Maximum number of steps. `order="fixed"` always asks for this number.
    """

    seconds: float
    least: int
    most: int

    def ticks(self, num_envs: int, tick_seconds: float) -> int:
        """Return the number of steps of each environment.

        Args:
            num_envs: Number of environments of the actor.
            tick_seconds: Seconds that one step of all environments takes. 0 for the largest message, infinity for the
                smallest one.
        """
        least, most = max(1, -(-self.least // num_envs)), max(1, self.most // num_envs)
        if tick_seconds * most <= self.seconds:
            return most
        return min(most, max(least, round(self.seconds / tick_seconds)))


class Losses:
    """The file `losses.json` of a run directory: steps that were asked for so far, and counts of what was lost.

    It is written at every message, because a process that is killed cannot report the steps after its checkpoint. The
    process that resumes the run reads it.

    Args:
        outdir: Run directory.
        resume: True to read the file of the earlier part of the run.

    Attributes:
        earlier: Contents of the file that the earlier part of the run has left. Empty if there is none.
    """

    def __init__(self, outdir: str | os.PathLike[str], resume: bool) -> None:
        self._path = os.path.join(outdir, LOSSES)
        self._file: Any = None
        self.earlier: dict[str, int] = {}
        if resume and os.path.exists(self._path):
            with open(self._path, "rb") as file:
                content = file.read(_MAX_LOSSES_BYTES)
            with contextlib.suppress(ValueError, TypeError, AttributeError):  # the file is damaged
                self.earlier = {str(name): int(count) for name, count in json.loads(content).items()}

    def write(self, **counts: int) -> None:
        """Replace the contents of the file, in one call, so that a killed process leaves no part of it."""
        if self._file is None:
            self._file = os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)
        self._file.seek(0)
        self._file.write(json.dumps(counts).ljust(_MAX_LOSSES_BYTES).encode())

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def is_synchronous(agent: Any) -> bool:
    """Return True if all actors must have the newest weights, because the agent does not correct for older ones."""
    return not hasattr(agent, "update_from_replay") and not agent.corrects_lag


class DistributedSource:
    """Source of training steps: actors step environments, and this process stores the steps and makes the updates.

    An actor works only on what it was asked for. The next request waits until the updates for its last answer are made.
    Therefore no queue grows, and the number of updates per step is exact. An on-policy agent that does not correct for
    older policies is trained synchronously: all actors are asked for the steps of one update with the newest weights.

    Args:
        agent: The agent, with the methods `observe_chunk` and `acting_copy`.
        actors: The actors.
        order: "arrival" reads the actors as they answer. "fixed" reads them in the order of the requests.
        size: Number of steps in a message. It is not used for on-policy agents whose updates need a fixed number of
            steps: a message then contains an actor's part of one update.
        updates_per_step: Number of updates per environment step of an agent with a replay buffer, counted from the
            first update on. If None, the agent's `n_times_update / update_interval`.
        losses: File that records the losses. If None, none is written.
        learners: The learners, if several processes make the updates together. Each stores the steps of its actors.
        journal: Journal of the agent's replay buffer, if it is a persistent buffer of this process.

    Attributes:
        learner_buffers: Stand-ins for the replay buffers of the other learners, so that checkpoints contain them.
        updates: Number of updates that were made for the steps so far.
        version: Number of publications of the weights so far.
    """

    def __init__(
        self,
        agent: Any,
        actors: EnvActors,
        order: Order,
        size: MessageSize,
        updates_per_step: float | None = None,
        losses: Losses | None = None,
        learners: Learners | None = None,
        journal: JournaledBuffer | None = None,
    ) -> None:
        self._journal = journal
        self.learners = learners
        self.learner_buffers = {} if learners is None else learners.buffers
        self._n_learners = 1 if learners is None else learners.size
        self.agent, self.actors, self.order, self.size = agent, actors, order, size
        self.has_replay = hasattr(agent, "update_from_replay")
        self.is_synchronous = is_synchronous(agent)
        if updates_per_step is None and self.has_replay:
            updates_per_step = agent.n_times_update / agent.update_interval
        self.updates_per_step = updates_per_step or 0.0
        #: Number of steps of one update of an on-policy agent. None if it is not fixed.
        self._rollout_size: int | None = None if self.has_replay else agent.steps_until_update
        n_actors = len(actors.handles)
        self.num_envs = n_actors * actors.num_envs
        self.updates, self.version, self._losses = 0, 0, losses
        self._first: int | None = None  # step from which updates are counted
        # The first message is the smallest one, because the speed of an actor is unknown.
        self._tick_seconds = [0.0 if order == "fixed" else math.inf] * n_actors
        self._weights: Any = None
        self._numbers = explorer_numbers(agent)  # as new actors have them
        self._changed: dict[str, Any] = {}  # those that hooks have changed
        self._ages: deque[int] = deque(maxlen=_WINDOW)
        self._started_at: float | None = None
        self._waited = self._idle = self._worked = 0.0
        self._has_stored = False
        # Until the first tick of a resumed run, the episodes of steps that were stored again.
        self._ended: list[Any] | None = None

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Store the steps of one answer, make the updates that are due, and ask for further steps.

        If no answer arrives within half a second, return without progress, so that signals are noticed.
        """
        if self._started_at is None:
            self._started_at = time.perf_counter()
            stop_episode(self.agent)
            if self.learners is not None:
                self.learners.begin()
            self._publish()
        if self._ended is not None:
            ended, self._ended = self._ended, None
            return self._take_in(clock, ended)
        self._ask(clock)
        begun = time.perf_counter()
        self._write_losses()
        received = self.actors.next(in_turn=self.order == "fixed")
        self._waited += time.perf_counter() - begun
        if received is None:
            return ()
        i, answer = received
        self._store(i, answer)
        self.actors.idle.append(i)
        return self._take_in(clock, answer.episodes)

    def _take_in(self, clock: Clock, episodes: Sequence[Any]) -> list[Episode]:
        """Advance the clock to the steps that were stored, make the updates that are due, and ask for further steps."""
        clock.t = self.agent.t
        if self._update(clock):
            self._publish()
        if not clock.stopped:
            self._ask(clock)
        self._write_losses()
        return [Episode(*episode) for episode in episodes]

    def _ask(self, clock: Clock) -> None:
        """Ask the idle actors for further steps, unless the steps that are on their way suffice."""
        idle = self.actors.idle
        if self.is_synchronous and (self.actors.pending or len(idle) < len(self.actors.handles)):
            return
        ticks_left = -(-(clock.steps - self._asked()) // self.actors.num_envs)
        if self.is_synchronous:
            ticks_left = -(-(clock.steps - clock.t) // self.num_envs)
        for name, number in explorer_numbers(self.agent).items():
            if name in self._changed or self._numbers.get(name) != number:
                self._changed[name] = number
        for i in idle[:]:
            if ticks_left <= 0:
                return
            ticks = min(self._ticks(i), ticks_left)
            idle.remove(i)
            self._write_losses(ticks * self.actors.num_envs)  # a process that is killed now has lost these steps, too
            self.actors.ask(i, self._weights, self.version, self.agent.t, ticks, self._changed)
            if not self.is_synchronous:
                ticks_left -= ticks

    def _asked(self) -> int:
        """Return the number of steps so far and on their way."""
        return int(self.agent.t) + sum(request.rows for request in self.actors.pending.values())

    def _write_losses(self, more: int = 0) -> None:
        """Write the losses. `more` is the number of steps that are asked for next."""
        if self._losses is not None:
            self._losses.write(asked=self._asked() + more, **self.actors.counts)

    def _ticks(self, i: int) -> int:
        """Return for how many steps of each environment actor `i` is asked."""
        steps = self._rollout_size
        if steps is not None and self.is_synchronous:
            steps = self.agent.steps_until_update if self.learners is None else self.learners.progress().steps_left
        if steps is not None:
            return max(1, -(-steps // (self.num_envs // self._n_learners)))
        return self.size.ticks(self.actors.num_envs, self._tick_seconds[i])

    def _store(self, i: int, answer: Answer) -> None:
        chunk, k, rank = answer.chunk, self.actors.num_envs, i % self._n_learners
        self._ages.append(self.version - answer.version)
        self._idle += answer.idle
        self._worked += answer.seconds
        if chunk is None:
            return
        if self.order == "arrival":
            self._tick_seconds[i] = answer.seconds * k / answer.n_steps
        if i in self.actors.cut:
            self.actors.cut.remove(i)
            cut = {"is_cut": True} if self.actors.is_apart(i) else {"cut": np.ones(k, np.bool_)}
            chunk = dataclasses.replace(chunk, **cut)
        env_ids = range(i * k, (i + 1) * k)
        if self.learners is not None and rank:
            self.learners.store(rank, chunk, env_ids)
            count_step(self.agent, chunk.n_steps)
            return
        if not self._has_stored:
            self._has_stored = True
            first = next(chunk.steps())["obs"][0]
            dry_run(self.agent, first, self.actors.descriptions[i].action_space)
        self.agent.observe_chunk(chunk, env_ids)
        if self._journal is not None:
            self._journal.write(chunk, env_ids, False, answer.label or {})

    def _update(self, clock: Clock) -> bool:
        """Make the updates that are due. If a signal stops the clock, leave the others to the resumed run.

        Returns:
            True if there was an update, and no other update is due.
        """
        n_due = self._due()
        for _ in range(n_due):
            if clock.stopped and clock.t < clock.steps:
                return False
            if self.learners is None:
                update_once(self.agent)
            else:
                self.learners.update()
            self.updates += 1
        return n_due > 0

    def _due(self) -> int:
        """Return the number of updates that are due."""
        if not self.has_replay:
            is_complete = not self.is_synchronous or not self.actors.pending
            return int(is_complete and self.agent.is_due() and self._others_are_ready())
        if self._first is None:
            if self.agent.waiting_for() is not None or not self._others_are_ready():
                return 0
            self._first = self.agent.t
        due: int = math.floor((self.agent.t - self._first) * self.updates_per_step) - self.updates
        return max(0, due)

    def _others_are_ready(self) -> bool:
        return self.learners is None or self.learners.progress().is_ready

    def _publish(self) -> None:
        """Put the newest weights into Ray's object store. Requests refer to them."""
        self.version += 1
        self._weights = self.actors.ray.put(pack_weights(acting_tensors(self.agent)))

    def get_statistics(self) -> dict[str, float]:
        """Return statistics of the exchange with the actors.

        Returns:
            - "weights_age": mean number of publications between the weights of an answer and the newest weights
            - "learner_waits": fraction of the time in which this process waited for answers
            - "actors_wait": fraction of the time in which the actors waited for requests
            - "updates": number of updates
            - "lost_processes", "lost_nodes": numbers of actors that were lost, with their process or with their node
            - "lost_steps": number of steps that were asked for and did not arrive, because their actor was lost, and of
              steps after a checkpoint from which the run resumed
        """
        elapsed = 0.0 if self._started_at is None else time.perf_counter() - self._started_at
        return {
            "weights_age": sum(self._ages) / max(1, len(self._ages)),
            "learner_waits": self._waited / max(elapsed, 1e-9),
            "actors_wait": self._idle / max(self._idle + self._worked, 1e-9),
            "updates": self.updates,
            **self.actors.counts,
        }

    def record(self) -> None:
        """Record episodes from now on, so that `saved_state` can be called."""
        self.actors.record()

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the actors, their outstanding answers, and the counters, at a consistent cut."""
        actors = self.actors.saved_state()
        return {
            "actors": actors, "asked": int(self.agent.t) + actors["rows"], "updates": self.updates,
            "first": self._first, "version": self.version, "ages": [*self._ages],
            "learners": None if self.learners is None else self.learners.saved_state(),
            "order": unknown_state(_ARRIVAL) if self.order == "arrival" and not self.is_synchronous else "fixed",
        }  # fmt: skip

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Check that the result of `saved_state` belongs to this number of learners.

        Raises:
            ValueError: If it belongs to another number.
        """
        saved = state.get("learners")
        n_learners = 1 if saved is None else len(saved["own"]) + 1
        if n_learners != self._n_learners:
            raise ValueError(f"it was saved with learners={n_learners}, and this run has learners={self._n_learners}")

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the result of `saved_state`.

        Returns:
            Reasons why later steps may differ from the steps of an uninterrupted run. The list is empty if they are
            equal.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not the saved state of a `DistributedSource`.
        """
        self.record()
        reasons = self.actors.restore_state(state["actors"])
        self.updates, self._first = int(state["updates"]), state["first"]
        self._ages.extend(state["ages"])
        self._started_at, self._has_stored, self._ended = time.perf_counter(), True, []
        self.version = int(state["version"]) - 1
        if self.learners is not None:
            self.learners.begin(state["learners"])
        self._publish()
        is_known = all(each.get("way") != "unknown" for each in state["actors"]["states"])
        has_order = self.order == "fixed" or self.is_synchronous
        repeats = not reasons and is_known and has_order and state["order"] == "fixed"
        journal = self._journal if self.actors.buffer is None else self.actors.buffer
        if journal is not None:
            reasons = [*reasons, *self._restore_journal(journal.restore_journal(keeps=not repeats))]
        return [*reasons, *(() if repeats else self._count_losses(state))]

    def _restore_journal(self, labels: Sequence[Mapping[str, Any]]) -> list[str]:
        """Count the chunks of a journal, which were stored again, as the first answers of this part of the run."""
        if not labels:
            return []
        before = self.agent.t
        self.agent.count_step(sum(label["steps"] for label in labels))
        self._ended = [episode for label in labels for episode in label["episodes"]]
        for i, answer in self.actors.answers_beside(labels):
            self._store(i, answer)
            self._ended += answer.episodes
        self.actors.restart(labels)
        return [f"{self.agent.t - before:,} steps after the checkpoint are kept, and new episodes start"]

    def _count_losses(self, state: Mapping[str, Any]) -> list[str]:
        """Count what the earlier part of the run has lost after its checkpoint."""
        if self._losses is None:
            return []
        counts, earlier = self.actors.counts, self._losses.earlier
        lost = max(earlier.get("asked", 0), state["asked"], self._asked()) - self._asked()
        for name, count in counts.items():
            counts[name] = max(count, earlier.get(name, 0)) + lost * (name == "lost_steps")
        return [f"up to {lost:,} steps that were made or on their way after the checkpoint are lost"] if lost else []

    def close(self) -> None:
        """End the actors."""
        self.actors.close()
        if self._journal is not None:
            self._journal.buffer.journal = None
        if self._losses is not None:
            self._losses.close()
