"""`AsyncWorkers`, a source of the training loop that watches training processes, and the agents it saves."""

import logging
import os
import shutil
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments.async_worker import Job, work
from pfrl_like.experiments.callbacks import statistics_of
from pfrl_like.experiments.sources import stop_episode
from pfrl_like.loggers import TensorBoardLogger
from pfrl_like.processes import Countdown, Failure, Finished, Workers
from pfrl_like.runs.loop import Clock, Episode
from pfrl_like.utils.plain_values import from_json

#: Seconds between two checks of the events; seconds that processes get at most to end after one of them has failed, and
#: after Ctrl-C, SIGTERM or an error in this process; and seconds for interrupted processes to send tracebacks.
GLANCE, GRACE, PROMPT, LAST_WORDS = 0.1, 2.0, 0.5, 1.0


class AsyncWorkers:
    """Training processes, as seen from the process that started them.

    Args:
        job: Job of the processes; one process is started for each of its seeds.
        stop_event: Ends training when it is set; None for none.
        exception_event: Ends training with an error when it is set; the error contains its attribute `error`, if it has
            one. None for none.
        logger: Gets a line for every score.
        start_method: How processes start.
        grace: Seconds that processes get to end once training is over; each step of an evaluation restarts this time.
        step_timeout: Seconds without a sign of life after which a process counts as hanging while training runs; None
            for no limit.

    Attributes:
        tensorboard: Gets the results of evaluations; None for none.
        statistics: Latest statistics of process 0's agent; None before the first.
        state: Latest state that process 0's agent saves besides the shared attributes; None before the first, or if it
            has none.
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
        self._reason = ""
        self._failures: dict[int | str, Failure] = {}
        self._signs: dict[int, Any] = {}  # latest sign of life of each process
        self._countdowns: dict[int, Countdown] = {}  # started at that sign
        self.workers = Workers(work, [(job,)] * len(job.seeds), start_method=start_method, name="actor")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Wait for messages for a moment at most; set the clock to the steps that all processes have begun."""
        ended = self._listen(GLANCE)
        if self.exception_event is not None and self.exception_event.is_set():
            self._note_exception()
        if self._failures:
            self._fail(self._end(min(GRACE, self.grace)))
        over = bool(self.counters.stop.value) or self.counters.steps_begun >= clock.steps
        hung = self._hung(over)
        if hung and not over:
            bound = f"{self.step_timeout:g} s (step_timeout, which bounds making environment and agent, too)"
            self._fail(self._end(min(GRACE, self.grace), hung, f"has made no step for {bound}"))
        if hung and hung == self.workers.running:
            self._fail(self._end(0.0))
        if self.stop_event is not None and self.stop_event.is_set():
            self._reason = self._reason or "stop_event was set"
            self.stop()
        clock.between_episodes = False
        clock.t = self.counters.steps_begun
        if self.workers.running:
            clock.t = max(min(clock.t, clock.steps - 1), clock.previous_t)  # the last step is not finished yet
        elif clock.t < clock.steps:
            clock.stop(self._reason)
        return ended

    def stop(self) -> None:
        """Ask all processes to end after their present step."""
        self.counters.stop.value = 1

    def close(self) -> None:
        """Ask all processes to end; kill those that do not, and log where they were."""
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
                elif kind == "evaluation":
                    if self.tensorboard is not None:
                        self.tensorboard.log_evaluation(t, *content)
                elif kind == "score":
                    self.logger.info("step:%s evaluation score:%s", t, content)
                else:
                    self._reason = content
        return ended

    def _note_exception(self) -> None:
        error = getattr(self.exception_event, "error", None)
        text = "set exception_event" if error is None else f"raised {type(error).__name__}: {error}"
        lines = "" if error is None else "".join(traceback.format_exception(error))
        self._failures.setdefault("learner", Failure(text, lines))

    def _hung(self, over: bool) -> frozenset[int]:
        """The processes without a sign of life for too long.

        The limit is `grace` once training is over, else `step_timeout`.
        """
        running = self.workers.running
        for index in running:
            sign = over, running, self.counters.beats[index]
            if self._signs.get(index) != sign:
                self._signs[index] = sign
                self._countdowns[index] = Countdown(self.grace if over else self.step_timeout)
        return frozenset(index for index in running if self._countdowns[index].left() <= 0)

    def _end(
        self, seconds: float, hung: frozenset[int] = frozenset(), how: str = "did not end when training was over"
    ) -> dict[int | str, Failure]:
        """Ask all processes to end; kill those that hang, and after some seconds the others that are still running.

        Args:
            seconds: Seconds that the other processes get.
            hung: Processes that hang.
            how: Reason given for the processes that hang.

        Returns:
            The killed processes, with the reason and their tracebacks.
        """
        self.stop()
        self._interrupt(hung)
        self._listen_for(seconds, hung)
        late = self.workers.running - hung
        self._interrupt(late)
        self._listen_for(LAST_WORDS)
        reasons = dict.fromkeys(sorted(hung), how) | dict.fromkeys(sorted(late), "did not end when training was over")
        return {
            index: Failure(f"{reason}: it was ended by force", self._last_words(index))
            for index, reason in reasons.items()
        }

    def _interrupt(self, indices: frozenset[int]) -> None:
        for index in indices:
            self.workers.interrupt(index)

    def _last_words(self, index: int) -> str:
        return self._failures.pop(index, Failure("")).traceback_text or self.workers.stack(index)

    def _saves(self) -> bool:
        return bool(self.counters.saving.value) and 0 in self.workers.running

    def _listen_for(self, seconds: float, but: frozenset[int] = frozenset()) -> None:
        """Receive messages until all processes except `but` have ended, for some seconds and while process 0 saves."""
        deadline = time.monotonic() + seconds
        self._listen(0.0)  # messages of processes that have ended meanwhile
        while self.workers.running - but and (time.monotonic() < deadline or self._saves()):
            self._listen(GLANCE)

    def _fail(self, late: dict[int | str, Failure]) -> NoReturn:
        """Raise an error about the failures that ended training, and about processes that did not end in time."""
        self.workers.close(hurry=True)
        failures = self._failures | late
        reasons = {who: failure.reason for who, failure in failures.items()}
        tracebacks = {who: failure.traceback_text for who, failure in failures.items()}
        raise AsyncTrainingError(reasons, tracebacks) from getattr(self.exception_event, "error", None)


class SharedAgent:
    """An agent whose shared attributes are trained by other processes.

    Args:
        agent: The agent of this process.
        source: The processes.
    """

    def __init__(self, agent: Any, source: AsyncWorkers) -> None:
        self.shared, self.source = agent, source  # the agent's own counters are not those of the processes

    def save(self, dirname: str) -> None:
        """Save the agent with the present parameters and the present step of the processes.

        Attributes that are not shared, such as running means, are those of process 0 after its last finished episode.
        """
        if self.source.state is not None:
            self.shared.restore_state(self.source.state)
            stop_episode(self.shared)  # the running episode is process 0's, and is not resumed
        getattr(self.shared, "sync_parameters", lambda: None)()
        if hasattr(self.shared, "t"):
            self.shared.t = self.source.counters.steps_begun
        self.shared.save(dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """The latest statistics of process 0; those of the agent itself before the first."""
        return statistics_of(self.shared) if self.source.statistics is None else self.source.statistics


class AgentOfProcess0:
    """The agent of process 0 in training without shared attributes; process 0 saves it when it ends.

    Args:
        source: The processes.
        folder: Folder in which process 0 saves its agent.
        logger: Gets a warning if process 0 could not save its agent.
    """

    def __init__(self, source: AsyncWorkers, folder: str, logger: logging.Logger) -> None:
        self.source, self.folder, self.logger = source, folder, logger

    def save(self, dirname: str) -> None:
        """End all processes, and copy the agent that process 0 has saved."""
        self.source.close()
        if os.path.isdir(self.folder):
            shutil.copytree(self.folder, dirname, dirs_exist_ok=True)
        else:
            self.logger.warning("Process 0 ended without saving its agent, so that %s was not written", dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """The latest statistics of process 0; empty before the first."""
        return self.source.statistics or []
