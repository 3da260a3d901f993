"""`AsyncWorkers`: the source of the training loop that only watches processes train."""

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

#: Seconds between two looks at the events; that processes get at most to end after one of them has failed; after
#: Ctrl-C, SIGTERM or an error in this process; and that those which are interrupted get for saying where they were.
GLANCE, GRACE, PROMPT, LAST_WORDS = 0.1, 2.0, 0.5, 1.0


class AsyncWorkers:
    """Processes that train, seen from the one that started them.

    Args:
        job: What they do; there is one for each of its seeds.
        stop_event: Ends training when it is set; None for none.
        exception_event: Ends training with an error when it is set; its `error`, if any, is told. None for none.
        logger: Gets a line for every score.
        start_method: How processes start.
        grace: Seconds that they get to end once training is over, or after the last step of an evaluation.
        step_timeout: Seconds within which each has to show a sign of life before; None is for ever.

    Attributes:
        tensorboard: Gets the results of evaluations; None if nothing does.
        statistics: Of process 0's agent, as last told; None before.
        state: What that agent saves beside the attributes that are shared; None before, or if it has none.
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
        self._signs: dict[int, Any] = {}  # of life, seen last
        self._countdowns: dict[int, Countdown] = {}  # since then
        self.workers = Workers(work, [(job,)] * len(job.seeds), start_method=start_method, name="actor")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Wait for news, a moment at most; steps that others have made are counted."""
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
            clock.t = max(min(clock.t, clock.steps - 1), clock.previous_t)  # the last step has still to be worked on
        elif clock.t < clock.steps:
            clock.stop(self._reason)
        return ended

    def stop(self) -> None:
        """Ask all processes to end after the step that they are at."""
        self.counters.stop.value = 1

    def close(self) -> None:
        """End all processes, by force those that do not end when they are asked to, of which the log tells."""
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
        """The processes that have shown no sign of life for too long: what that is depends on whether all is over."""
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
        """Ask all processes to end, those that hang and, after some seconds, the others by force.

        Args:
            seconds: That the others get.
            hung: Those that hang.
            how: What these have done.

        Returns:
            Those that were ended by force, and where they were.
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
        """Listen until all processes but some have ended, for some seconds at most, and while one saves."""
        deadline = time.monotonic() + seconds
        self._listen(0.0)  # to those that have ended meanwhile
        while self.workers.running - but and (time.monotonic() < deadline or self._saves()):
            self._listen(GLANCE)

    def _fail(self, late: dict[int | str, Failure]) -> NoReturn:
        """Tell what has ended training, and of processes that did not end with it, which have had their time."""
        self.workers.close(hurry=True)
        failures = self._failures | late
        reasons = {who: failure.reason for who, failure in failures.items()}
        tracebacks = {who: failure.traceback_text for who, failure in failures.items()}
        raise AsyncTrainingError(reasons, tracebacks) from getattr(self.exception_event, "error", None)


class SharedAgent:
    """An agent whose shared attributes other processes change.

    Args:
        agent: The agent of this process.
        source: The processes.
    """

    def __init__(self, agent: Any, source: AsyncWorkers) -> None:
        self.shared, self.source = agent, source  # its own counters are not those of the processes

    def save(self, dirname: str) -> None:
        """Save the agent with what the processes have learnt up to now, at the step that they have come to.

        What they do not share, such as running means, becomes that of process 0 at the end of its last episode.
        """
        if self.source.state is not None:
            self.shared.restore_state(self.source.state)
            stop_episode(self.shared)  # the running one is process 0's, and ends with it
        getattr(self.shared, "sync_parameters", lambda: None)()
        if hasattr(self.shared, "t"):
            self.shared.t = self.source.counters.steps_begun
        self.shared.save(dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Those of process 0, of the agent itself before these have come."""
        return statistics_of(self.shared) if self.source.statistics is None else self.source.statistics


class AgentOfProcess0:
    """An agent that shares nothing: what process 0 leaves when it ends.

    Args:
        source: The processes.
        folder: Where process 0 saves its own.
        logger: Told if process 0 could not save.
    """

    def __init__(self, source: AsyncWorkers, folder: str, logger: logging.Logger) -> None:
        self.source, self.folder, self.logger = source, folder, logger

    def save(self, dirname: str) -> None:
        """End all processes, and copy what process 0 has saved."""
        self.source.close()
        if os.path.isdir(self.folder):
            shutil.copytree(self.folder, dirname, dirs_exist_ok=True)
        else:
            self.logger.warning("Process 0 ended without saving its agent, so that %s was not written", dirname)

    def get_statistics(self) -> list[tuple[str, Any]]:
        """Those of process 0."""
        return self.source.statistics or []
