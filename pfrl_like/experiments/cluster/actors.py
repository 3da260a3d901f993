"""`EnvActors`: starts the actors of a run, asks them, waits for their answers, and replaces those that are lost."""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pfrl_like.errors import WorkerError
from pfrl_like.experiments.cluster.env_actor import Answer, Description, EnvActor, Origin, check_versions, error_of
from pfrl_like.experiments.cluster.remote_buffer import RemoteBuffer, RemoteChunk
from pfrl_like.runs.loop import unknown_state

#: Maximum number of seconds of one call of `ray.wait`, so that signals and time limits are noticed.
POLL = 0.5
#: Seconds after the loss of a process in which the loss of its node is noticed. Ray needs 15 s to notice a lost node.
_NODE_SECONDS = 60.0
#: Maximum number of seconds for which a checkpoint waits for an actor, if a resume is "approximate" anyway.
SAVE_SECONDS = 30.0
#: Maximum number of seconds in which an actor closes its environments, and in which it first finishes its requests.
_CLOSE_SECONDS, _FINISH_SECONDS = 10.0, 1.0


class Limits(NamedTuple):
    """Limits of actors.

    Attributes:
        start: Seconds in which an actor must be scheduled and make its environments.
        answer: Seconds in which an actor must answer a request. An actor that takes longer is replaced.
        replace: Seconds in which an actor must be scheduled again after its node was lost. A cluster may first have to
            start another node.
        save: Seconds in which all actors must finish their requests and return their states for a checkpoint.
        early_deaths: Number of times that an actor may be lost before its first answer.
        in_flight: Number of requests that an actor has at the same time.
    """

    start: float
    answer: float
    replace: float
    save: float
    early_deaths: int
    in_flight: int


class Request(NamedTuple):
    """A request whose answer is outstanding.

    Attributes:
        actor: Number of the actor.
        rows: Number of steps that were asked for. 0 if the actor is starting.
        limit: Number of seconds in which the answer must arrive.
        deadline: Time at which these seconds are over, on the clock of `time.monotonic`.
        ping: Reference to the answer of `ping`, if the actor is starting, else None.
        chunk: Reference to the chunk of the answer, if this process does not read the chunk, else None.
        number: Number of the request in this run.
    """

    actor: int
    rows: int
    limit: float
    deadline: float
    ping: Any = None
    chunk: Any = None
    number: int = 0


class EnvActors:
    """The actors of a run. Each has a process of its own, which is replaced if it is lost.

    Args:
        ray: The module `ray`, with a connection.
        n_actors: Number of actors.
        make_origin: Function of (number of the actor, number of its earlier processes) that returns the origin.
        arguments: Further arguments of `EnvActor`.
        num_envs: Number of environments of each actor.
        cpus: Number of CPUs that Ray reserves for each actor. It may be a fraction.
        limits: Limits of time, losses and requests.
        logger: Logger that gets a warning when an actor is lost.
        buffer: The replay buffer if it is in a replay actor. The chunks of answers are then `RemoteChunk`s. If None,
            this process reads the chunks.
        learners: Number of learners. The chunks of the actors whose number it does not divide are `RemoteChunk`s, too.

    Attributes:
        handles: Handles of the actors in Ray.
        idle: Numbers of the actors that wait for a request, in the order in which they became idle. An actor that may
            have several requests at the same time is in the list several times.
        pending: The outstanding requests, keyed by the reference to the answer, oldest first.
        lives: Number of earlier processes of each actor.
        cut: Numbers of the actors whose next steps do not continue their earlier steps, because a process was lost.
        counts: Numbers of lost processes and nodes, and of steps that were asked for and did not arrive.
        descriptions: Description of the newest process of each actor.

    Raises:
        WorkerError: If an actor cannot be started. The message names the resources or versions that do not match.
    """

    has_no_rng = True

    def __init__(
        self,
        ray: Any,
        n_actors: int,
        make_origin: Callable[[int, int], Origin],
        arguments: Sequence[Any],
        *,
        num_envs: int,
        cpus: float,
        limits: Limits,
        logger: logging.Logger,
        buffer: RemoteBuffer | None = None,
        learners: int = 1,
    ) -> None:
        self.buffer, self._learners = buffer, learners
        self.ray, self.make_origin, self.arguments = ray, make_origin, arguments
        self.num_envs, self.cpus, self.limits, self.logger = num_envs, cpus, limits, logger
        options = {"num_cpus": cpus, "max_restarts": 0, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
        self._class = ray.remote(EnvActor).options(**options)
        self._records, self._checked_at = False, time.monotonic()
        self._early_deaths = [0] * n_actors
        self._has_answered = [False] * n_actors  # the process that the actor has now
        self._suspects: dict[int, tuple[str, float]] = {}  # actor: node of its lost process, and time of the loss
        self.idle: list[int] = []
        self.pending: dict[Any, Request] = {}
        self.lives, self.cut = [0] * n_actors, set[int]()
        self.counts = {"lost_processes": 0, "lost_nodes": 0, "lost_steps": 0}
        self._requests = 0  # number of requests so far
        self.descriptions: dict[int, Description] = {}
        self.handles = [self._make(i) for i in range(n_actors)]
        try:
            for i in range(n_actors):
                self._start(i, limits.start)
            while len(set(self.idle)) < n_actors:
                self.next()
        except BaseException:
            self.close()
            raise
        self.idle.sort()

    def record(self) -> None:
        """Record episodes from now on, so that `saved_state` can be called. Call this method before the first step."""
        if not self._records:
            self._records = True
            refs = [handle.record.remote() for handle in self.handles]
            self.ray.wait(refs, num_returns=len(refs), timeout=self.limits.answer)  # `next` replaces a lost actor

    def ask(self, i: int, weights: Any, version: int, t: int, ticks: int, numbers: Mapping[str, Any]) -> None:
        """Ask an actor for `ticks` steps of each environment; see `EnvActor.collect`."""
        arguments, handle, chunk = (weights, version, t, ticks, numbers), self.handles[i], None
        if self.is_apart(i):
            method = handle.collect_apart.options(num_returns=2)
            ref, chunk = method.remote(*arguments, self.buffer is not None and self.buffer.uses_first_errors)
        else:
            ref = handle.collect.remote(*arguments)
        self._requests += 1
        self._add(ref, i, ticks * self.num_envs, self.limits.answer, chunk=chunk, number=self._requests)

    def is_apart(self, i: int) -> bool:
        """Return True if this process gets only references to the chunks of actor `i`."""
        return self.buffer is not None or i % self._learners > 0

    def next(self, *, in_turn: bool = False) -> tuple[int, Answer] | None:
        """Wait for an answer, at most half a second.

        Args:
            in_turn: True to wait for the oldest request alone.

        Returns:
            Number of the actor and its answer. None if no answer has arrived, or if an actor has started or was lost.

        Raises:
            WorkerError: If an environment raised an error, or if an actor cannot be replaced.
        """
        ref = self._first_ready(list(self.pending)[: 1 if in_turn else None])
        if time.monotonic() - self._checked_at > POLL:
            self._check_deadlines()
        if ref not in self.pending:
            return None
        request = self.pending.pop(ref)
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:
            raise error_of(request.actor, "", error) from None
        except self.ray.exceptions.RayError as error:
            self._lose(request, first_line(error))
            return None
        if request.ping is not None:
            check_versions(request.actor, answer.versions)
            self.descriptions[request.actor] = answer
            self.idle += [request.actor] * self.limits.in_flight
            return None
        self._early_deaths[request.actor], self._has_answered[request.actor] = 0, True
        self._restart_deadline(request.actor)
        return self._received(request, answer)

    def _restart_deadline(self, i: int) -> None:
        """Give the oldest request of an actor its whole time, because it has waited for an earlier request."""
        if i in (oldest := self._oldest()):
            request = self.pending[oldest[i]]
            self.pending[oldest[i]] = request._replace(deadline=time.monotonic() + request.limit)

    def _oldest(self) -> dict[int, Any]:
        """Return the reference to the oldest request of each actor that has one, keyed by the number of the actor."""
        return {request.actor: ref for ref, request in reversed(self.pending.items())}

    def _received(self, request: Request, answer: Answer) -> tuple[int, Answer]:
        i = request.actor
        if answer.n_steps:
            label = {
                "request": request.number, "actor": i, "life": self.lives[i], "steps": answer.n_steps,
                "episodes": [[float(total_reward), int(length)] for total_reward, length in answer.episodes],
            }  # fmt: skip
            chunk = answer.chunk if request.chunk is None else RemoteChunk(self.ray, request.chunk, label)
            answer = answer._replace(chunk=chunk, label=label)
        return i, answer

    def _first_ready(self, refs: Sequence[Any]) -> Any:
        """Return the oldest request that has been answered. If there is none, wait for one; None after half a second.

        A busy learner finds several answers. If it took any of them, it would never read some of the actors.
        """
        ready = set(self.ray.wait(refs, num_returns=len(refs), timeout=0.0)[0]) if refs else ()
        if refs and not ready:
            ready = self.ray.wait(refs, num_returns=1, timeout=POLL)[0]
        return next((ref for ref in refs if ref in ready), None)

    def _make(self, i: int) -> Any:
        return self._class.remote(self.make_origin(i, self.lives[i]), *self.arguments)

    def _start(self, i: int, limit: float) -> None:
        ping = self.handles[i].ping.remote()  # before the other call, because an actor works on one call after another
        self._add(self.handles[i].start.remote(self._records, sys.path), i, 0, limit, ping)

    def _add(
        self, ref: Any, i: int, rows: int, limit: float, ping: Any = None, chunk: Any = None, number: int = 0
    ) -> None:
        self.pending[ref] = Request(i, rows, limit, time.monotonic() + limit, ping, chunk, number)

    def _check_deadlines(self) -> None:
        """Replace the actors that have not answered in time.

        Raises:
            WorkerError: If an actor has not started in time.
        """
        self._checked_at = now = time.monotonic()
        self._check_nodes()
        late = [ref for ref in self._oldest().values() if self.pending[ref].deadline < now]
        if late:  # this process may have been busy, and not have read an answer that came in time
            late = self.ray.wait(late, num_returns=len(late), timeout=0.0)[1]
        for request in [self.pending[ref] for ref in late]:
            if request.ping is not None:
                raise WorkerError(
                    request.actor, f"has not started within {request.limit:g} s: {self._obstacle(request)}"
                )
            self._lose(request, f"did not answer within {request.limit:g} s")

    def _alive_nodes(self) -> set[str]:
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def _check_nodes(self) -> None:
        """Correct the losses of processes whose node was lost, too. Ray notices the loss of a node later."""
        self._suspects = {
            i: (node, since) for i, (node, since) in self._suspects.items() if self._checked_at - since < _NODE_SECONDS
        }
        alive = self._alive_nodes() if self._suspects else set()
        for i, (node, _) in [item for item in self._suspects.items() if item[1][0] not in alive]:
            del self._suspects[i]
            self.counts["lost_processes"] -= 1
            self.counts["lost_nodes"] += 1
            self.logger.warning("actor %d was lost with its node %.8s", i, node)
            for ref, request in self.pending.items():
                if request.actor == i and request.ping is not None:
                    more = self.limits.replace - request.limit
                    self.pending[ref] = request._replace(limit=self.limits.replace, deadline=request.deadline + more)

    def _obstacle(self, request: Request) -> str:
        """Return the reason why an actor has not started."""
        if self.ray.wait([request.ping], timeout=0.0)[0]:
            return "make_env has not returned; allow more time with start_timeout"
        total, free = (
            resources.get("CPU", 0) for resources in (self.ray.cluster_resources(), self.ray.available_resources())
        )
        if free >= self.cpus:
            return "its process starts slowly; allow more time with start_timeout"
        needed = len(self.handles) * self.cpus
        return (
            f"Ray could not schedule it. The actors need {needed:g} CPUs in all, and {free:g} of {total:g} are free: "
            "reduce actors or cpus_per_actor (0.5 or 0 is possible), or allow more time with start_timeout"
        )

    def _lose(self, request: Request, reason: str) -> None:
        """Forget the requests of a lost actor, and start its successor.

        Raises:
            WorkerError: If the actor has been lost too often before its first answer.
        """
        i = request.actor
        with contextlib.suppress(Exception):  # the process may have ended
            self.ray.kill(self.handles[i])
        rows = request.rows + sum(each.rows for each in self.pending.values() if each.actor == i and each != request)
        self.pending = {ref: each for ref, each in self.pending.items() if each.actor != i}
        self.idle = [each for each in self.idle if each != i]
        node = self.descriptions[i].node if i in self.descriptions else ""
        has_node = not node or node in self._alive_nodes()
        if node and has_node:
            self._suspects[i] = node, time.monotonic()
        self.counts["lost_processes" if has_node else "lost_nodes"] += 1
        self.counts["lost_steps"] += rows
        what = "its process" if has_node else f"its node {node:.8}"
        self._early_deaths[i] += not self._has_answered[i]
        if self._early_deaths[i] > self.limits.early_deaths:
            text = f"was lost {self._early_deaths[i]} times before its first answer; the last time, {what} was lost"
            raise WorkerError(i, f"{text}: {reason}")
        self.logger.warning(
            "actor %d and %s are lost, with up to %d steps that were on their way, and its running episodes: %s. "
            "Another process takes its place", i, what, rows, reason,
        )  # fmt: skip
        self._start_successor(i, self.limits.start if has_node else self.limits.replace)

    def _start_successor(self, i: int, limit: float) -> None:
        """Start a process with other random streams in the place of an actor that has no process."""
        self.lives[i] += 1
        self.cut.add(i)
        self._has_answered[i] = False
        self.handles[i] = self._make(i)
        self._start(i, limit)

    def saved_state(self) -> dict[str, Any]:
        """Return the states of all actors after their outstanding answers, and these answers, as JSON values.

        "rows" is the number of steps that these answers were asked for. If an actor does not answer, the state contains
        the reason in its place.
        """
        deadline = time.monotonic() + self.limits.save
        states = [handle.saved_state.remote() for handle in self.handles]
        plain: list[Any] = []
        answers: dict[Any, Any] = {}
        for i, state in enumerate(states):
            refs = [ref for ref, request in self.pending.items() if request.actor == i]
            try:
                if any(self.pending[ref].ping is not None for ref in refs):
                    raise ValueError("it is starting")
                *own, saved = self.ray.get([*refs, state], timeout=max(0.0, deadline - time.monotonic()))
                answers |= {ref: self._whole(ref, answer).to_plain() for ref, answer in zip(refs, own, strict=True)}
                plain.append(saved)
            except Exception as error:  # the next `next` raises it, or replaces the actor
                plain.append(unknown_state(f"the state of actor {i} cannot be saved: {first_line(error)}"))
        waiting = ((answers[ref], each) for ref, each in self.pending.items() if ref in answers)
        pending = [[each.actor, each.rows, answer, each.number] for answer, each in waiting]
        return {
            "states": plain, "pending": pending, "idle": [*self.idle], "lives": [*self.lives], "cut": sorted(self.cut),
            "counts": dict(self.counts), "requests": self._requests,
            "rows": sum(self.pending[ref].rows for ref in answers),
        }  # fmt: skip

    def _whole(self, ref: Any, answer: Answer) -> Answer:
        """Return an answer with its chunk."""
        chunk = self.pending[ref].chunk
        return answer if chunk is None else answer._replace(chunk=self.ray.get(chunk))

    def restore_state(self, state: Mapping[str, Any]) -> list[str]:
        """Restore the result of `saved_state`. The saved answers wait as if they had just arrived.

        Returns:
            Reasons why later steps may differ from the steps of an uninterrupted run.
        """
        n_actors = len(self.handles)
        self.counts |= state["counts"]
        self._requests = int(state["requests"])
        if len(state["states"]) != n_actors:
            self.lives, self.idle = [max(state["lives"])] * n_actors, []
            self._renew(range(n_actors))
            return [f"the checkpoint has {len(state['states'])} actors and this run has {n_actors}: new episodes start"]
        self.lives = [int(life) for life in state["lives"]]
        known = [i for i in range(n_actors) if state["states"][i].get("way") != "unknown"]
        self.cut = {*state["cut"]}
        reasons: list[str] = []
        refs = [self.handles[i].restore_state.remote(state["states"][i]) for i in known]
        self.ray.wait(refs, num_returns=len(refs), timeout=self.limits.answer)
        for i, ref in zip(known, refs, strict=True):
            try:
                reasons += [f"actor {i}: {reason}" for reason in self.ray.get(ref, timeout=0)]
            except self.ray.exceptions.RayTaskError:
                raise
            except self.ray.exceptions.RayError as error:  # `next` replaces the actor
                reasons.append(f"actor {i} was lost: {first_line(error)}")
        for i, rows, plain, number in state["pending"]:
            answer = Answer.from_plain(plain)
            chunk = self.ray.put(answer.chunk) if self.is_apart(i) else None
            self._add(self.ray.put(answer), i, rows, self.limits.answer, chunk=chunk, number=number)
        self.idle = [i for i in state["idle"] if i in known]
        self._renew(sorted({*range(n_actors)} - {*known}))
        for i in known:
            busy = sum(request.actor == i for request in self.pending.values()) + self.idle.count(i)
            self.idle += [i] * (self.limits.in_flight - busy)
        return reasons

    def _renew(self, indices: Iterable[int]) -> None:
        """Give new random streams to actors that cannot continue a checkpoint. They would repeat earlier steps."""
        for i in indices:
            self.lives[i] += 1
            self.cut.add(i)
            self.handles[i].replace.remote(self.make_origin(i, self.lives[i]))
            self._start(i, self.limits.start)

    def answers_beside(self, labels: Sequence[Mapping[str, Any]]) -> list[tuple[int, Answer]]:
        """Return the restored answers whose chunks have none of these labels, each with the number of its actor."""
        known = {label["request"] for label in labels}
        waiting = [(ref, each) for ref, each in self.pending.items() if each.ping is None and each.number not in known]
        return [self._received(request, self.ray.get(ref)) for ref, request in waiting]

    def restart(self, labels: Sequence[Mapping[str, Any]]) -> None:
        """Give new episodes and random streams to all actors, because chunks with these labels were stored."""
        self.pending, self.idle = {}, []
        self._requests = max(self._requests, *(label["request"] for label in labels))
        for label in labels:
            if label["actor"] < len(self.lives):
                self.lives[label["actor"]] = max(self.lives[label["actor"]], label["life"])
        self._renew(range(len(self.handles)))

    def close(self) -> None:
        """Close the environments and end all processes. An actor that does not finish its requests is killed."""
        with contextlib.suppress(Exception):  # Ray itself may have ended
            closings = [handle.close.remote() for handle in self.handles]
            requests = [*self.pending]
            left = self.ray.wait(requests, num_returns=len(requests), timeout=_FINISH_SECONDS)[1] if requests else ()
            busy = {self.pending[ref].actor for ref in left}
            refs = [ref for i, ref in enumerate(closings) if i not in busy]
            self.ray.wait(refs, num_returns=len(refs), timeout=_CLOSE_SECONDS)
        for handle in self.handles:
            with contextlib.suppress(Exception):
                self.ray.kill(handle)
        self.pending.clear()


def first_line(error: BaseException) -> str:
    """Return the first line of the message of an error, or its type if it has no message.

    For an error that was raised in an actor, this is the message of the original error.
    """
    error = getattr(error, "cause", None) or error
    return str(error).partition("\n")[0].rstrip(".") or type(error).__name__
