"""Asynchronous training in the main process: `AsyncWorkers`, the source of training steps, and the saved agents."""

import logging
import os
import shutil
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments.async_worker import Job, work
from pfrl_like.experiments.sources import stop_episode
from pfrl_like.loggers import TensorBoardLogger
from pfrl_like.processes import Countdown, Failure, Finished, ProcessArgument, Workers
from pfrl_like.runs.loop import Callback, Clock, Episode, run
from pfrl_like.utils.plain_values import from_json

POLL = 0.1  # seconds between two checks of `stop_event` and `exception_event`
GRACE = 2.0  # maximum seconds until the other processes end after one process has failed
PROMPT = 0.5  # maximum seconds until the processes end after an error in the main process
TRACEBACK_SECONDS = 1.0  # seconds in which interrupted processes send their tracebacks
_LATE = "did not end when training was over"


class AsyncWorkers:
    """Source of training steps that starts training processes, receives their messages and watches them.

    Args:
        job: Job of the processes. One process is started for each of its seeds.
        stop_event: Event that ends training when it is set, or None.
        exception_event: Event that ends training with an error when it is set, or None. If the event has an attribute
            `error`, the raised error contains this attribute.
        logger: Logger that gets a line for every score.
        start_method: Start method of the processes. If None, forkserver is used if the system has it, else spawn.
        grace: Maximum number of seconds that a process may take to end after the end of training. Each step of an
            evaluation restarts this time.
        step_timeout: Maximum number of seconds between two heartbeats of a process during training. If None, there is
            no limit.

    Attributes:
        tensorboard: Logger for the results of evaluations, or None.
        statistics: Latest statistics of the agent of process 0. None before the first message.
        state: Latest state of the agent of process 0, without the shared attributes. None before the first message, or
            if the agent saves no such state.
        options: Numbers of the shared optimisers after the newest step, as `option_numbers` returns them. Empty if no
            process has changed a number.
    """

    def __init__(
        self,
        job: Job,
        stop_event: Any,
        exception_event: Any,
        logger: logging.Logger,
        start_method: str | None,
        grace: float,
        step_timeout: float | None,
    ) -> None:
        self.counters, self.logger, self.grace, self.step_timeout = job.counters, logger, grace, step_timeout
        self.stop_event, self.exception_event = stop_event, exception_event
        self.tensorboard: TensorBoardLogger | None = None
        self.statistics: list[tuple[str, Any]] | None = None
        self.state: dict[str, Any] | None = None
        self.options: dict[str, list[dict[str, Any]]] = {}
        self._options_t = -1
        self._reason = ""
        self._failures: dict[int | str, Failure] = {}
        self._heartbeats: dict[int, Any] = {}  # latest heartbeat of each process
        self._countdowns: dict[int, Countdown] = {}  # time limit of each process, started at its latest heartbeat
        arguments = [(ProcessArgument(job),)] * len(job.seeds)
        self.workers = Workers(work, arguments, start_method=start_method, name="actor")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Wait briefly for messages, and set the clock to the number of steps that all processes have started."""
        ended = self._listen(POLL)
        if self.exception_event is not None and self.exception_event.is_set():
            error = getattr(self.exception_event, "error", None)
            text = "set exception_event" if error is None else f"raised {type(error).__name__}: {error}"
            lines = "" if error is None else "".join(traceback.format_exception(error))
            self._failures.setdefault("learner", Failure(text, lines))
        if self._failures:
            self._fail(self._end(min(GRACE, self.grace)))
        over = bool(self.counters.stop.value) or self.counters.steps_started >= clock.steps
        hung = self._hanging(over)
        if hung and not over:
            bound = f"{self.step_timeout:g} s (step_timeout, which also limits make_env and make_agent)"
            self._fail(self._end(min(GRACE, self.grace), hung, f"has made no step for {bound}"))
        if hung and hung == self.workers.running:
            self._fail(self._end(0.0))
        if self.stop_event is not None and self.stop_event.is_set():
            self._reason = self._reason or "stop_event was set"
            self.stop()
        clock.between_episodes = False
        clock.t = self.counters.steps_started
        if self.workers.running:
            clock.t = max(min(clock.t, clock.steps - 1), clock.previous_t)  # the last step is not finished yet
        elif clock.t < clock.steps:
            clock.stop(self._reason)
        return ended

    def run(self, clock: Clock, callbacks: Sequence[Callback]) -> None:
        """Call `loop.run`. If a callback has stopped the clock, wait until all processes have ended."""
        run(self, clock, callbacks)
        self.stop()
        while self.workers.running:
            reason = clock.reason
            self.tick(clock)
            clock.stop(reason)

    def stop(self) -> None:
        """Tell all processes to end after the current step."""
        self.counters.stop.value = 1

    def close(self) -> None:
        """Tell all processes to end. Kill processes that do not end, and log their tracebacks."""
        try:
            if not self.workers.closed:
                for index, failure in self._end(min(PROMPT, self.grace)).items():
                    self.logger.warning("process %s %s\n%s", index, failure.reason, failure.traceback_text)
        finally:
            self.workers.close(hurry=True)

    def _listen(self, timeout: float) -> list[Episode]:
        ended = []
        for index, message in self.workers.wait(timeout):
            if isinstance(message, Failure):
                self._failures[index] = message
            elif not isinstance(message, Finished):
                kind, t, content = message
                if kind == "episode":
                    ended.append(content)
                elif kind == "agent":
                    self.statistics, self.state = content[0], from_json(content[1])
                elif kind == "optimizers":
                    if t > self._options_t:
                        self.options, self._options_t = content, t
                elif kind == "evaluation":
                    if self.tensorboard is not None:
                        self.tensorboard.log_evaluation(t, *content)
                elif kind == "score":
                    self.logger.info("step:%s evaluation score:%s", t, content)
                else:
                    self._reason = content
        return ended

    def _hanging(self, over: bool) -> frozenset[int]:
        """Return the running processes whose last heartbeat is too long ago.

        During training the limit is `step_timeout` seconds. After the end of training it is `grace` seconds.
        """
        running = self.workers.running
        for index in running:
            sign = over, running, self.counters.beats[index]
            if self._heartbeats.get(index) != sign:
                self._heartbeats[index] = sign
                self._countdowns[index] = Countdown(self.grace if over else self.step_timeout)
        return frozenset(index for index in running if self._countdowns[index].left() <= 0)

    def _end(self, seconds: float, hung: frozenset[int] = frozenset(), reason: str = "") -> dict[int | str, Failure]:
        """Tell all processes to end. Interrupt hanging processes immediately, and the others after `seconds`.

        Args:
            seconds: Number of seconds after which processes that do not hang are interrupted.
            hung: Indices of the processes that hang.
            reason: Reason that the error gives for the processes that hang.

        Returns:
            A `Failure` for each interrupted process, keyed by the index of the process.
        """
        self.stop()
        for index in hung:
            self.workers.interrupt(index)
        self._listen_for(seconds, hung)
        late = self.workers.running - hung
        for index in late:
            self.workers.interrupt(index)
        self._listen_for(TRACEBACK_SECONDS)
        failures: dict[int | str, Failure] = {}
        for index in [*sorted(hung), *sorted(late)]:
            lines = self._failures.pop(index, Failure("")).traceback_text or self.workers.stack(index)
            failures[index] = Failure(f"{reason if index in hung else _LATE}: the process was killed", lines)
        return failures

    def _listen_for(self, seconds: float, excluded: frozenset[int] = frozenset()) -> None:
        """Receive messages until all processes except `excluded` have ended, or until `seconds` have passed.

        If process 0 is saving its agent when the time is over, wait until it has finished.
        """
        deadline = time.monotonic() + seconds
        # This call also receives messages of processes that have already ended.
        self._listen(0.0)
        while self.workers.running - excluded:
            if time.monotonic() >= deadline and not (self.counters.saving.value and 0 in self.workers.running):
                break
            self._listen(POLL)

    def _fail(self, late: dict[int | str, Failure]) -> NoReturn:
        """Raise an error that contains the failures that ended training, and `late`, the failures of slow processes."""
        self.workers.close(hurry=True)
        failures = self._failures | late
        reasons = {who: failure.reason for who, failure in failures.items()}
        tracebacks = {who: failure.traceback_text for who, failure in failures.items()}
        raise AsyncTrainingError(reasons, tracebacks) from getattr(self.exception_event, "error", None)


class SharedAgent:
    """The agent of this process. It shares attributes, such as networks, with the processes that train them.

    Args:
        agent: The agent of this process.
        source: Source of training steps.
    """

    def __init__(self, agent: Any, source: AsyncWorkers) -> None:
        # The training processes do not change the counters of this agent, such as `t`.
        self.shared, self.source = agent, source

    def save(self, dirname: str) -> None:
        """Save the agent with the current parameters and the current step of the processes.

        Attributes that are not shared, such as running means, have the values of process 0 after its last finished
        episode. Numbers of the optimisers that hooks change, such as the learning rate, have their newest values.
        """
        for name, groups in self.source.options.items():
            for group, numbers in zip(getattr(self.shared, name).param_groups, groups, strict=True):
                group.update(numbers)
        if self.source.state is not None:
            self.shared.restore_state(self.source.state)
            stop_episode(self.shared)  # the running episode of process 0 is not resumed
        getattr(self.shared, "sync_parameters", lambda: None)()
        if hasattr(self.shared, "t"):
            self.shared.t = self.source.counters.steps_started
        self.shared.save(dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the latest statistics of process 0; an empty list before its first message."""
        return self.source.statistics or []


class AgentOfProcess0:
    """Represents the agent of process 0 in training without shared memory. Process 0 saves its agent before it ends.

    Args:
        source: Source of training steps.
        folder: Folder in which process 0 saves its agent.
        logger: Logger that gets a warning if process 0 could not save its agent.
    """

    def __init__(self, source: AsyncWorkers, folder: str, logger: logging.Logger) -> None:
        self.source, self.folder, self.logger = source, folder, logger

    def save(self, dirname: str) -> None:
        """End all processes and copy the agent that process 0 saved."""
        self.source.close()
        if os.path.isdir(self.folder):
            shutil.copytree(self.folder, dirname, dirs_exist_ok=True)
        else:
            self.logger.warning("Process 0 ended without saving its agent: %s was not written", dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Return the latest statistics of process 0; an empty list before its first message."""
        return self.source.statistics or []
