"""`AsyncWorkers`: the source of the training loop that only watches processes train."""

import logging
import time
import traceback
from collections.abc import Sequence
from typing import Any

from pfrl_like.errors import AsyncTrainingError
from pfrl_like.experiments.async_worker import Counters, Job, work
from pfrl_like.experiments.loop import Clock, Episode
from pfrl_like.processes import Failure, Finished, Workers

#: Seconds between two looks at the events, and that processes get to end after one of them has failed.
GLANCE, GRACE = 0.1, 5.0


class AsyncWorkers:
    """Processes that train, seen from the one that started them.

    Args:
        job: What they do.
        counters: What they share.
        processes: How many there are.
        stop_event: Ends training when it is set; None for none.
        exception_event: Ends training with an error when it is set; its `error`, if any, is told. None for none.
        logger: Gets a line for every score.
        start_method: How processes start.

    Attributes:
        statistics: Of process 0's agent, as last told; None before.
        state: What that agent saves beside the attributes that are shared; None before, or if it has none.
    """

    def __init__(
        self,
        job: Job,
        counters: Counters,
        processes: int,
        stop_event: Any,
        exception_event: Any,
        logger: logging.Logger,
        start_method: str | None,
    ) -> None:
        self.counters, self.logger = counters, logger
        self.stop_event, self.exception_event = stop_event, exception_event
        self.statistics: list[tuple[str, Any]] | None = None
        self.state: dict[str, Any] | None = None
        self._reason = ""
        self._failures: dict[int | str, Failure] = {}
        arguments = [(job, counters)] * processes
        self.workers = Workers(work, arguments, start_method=start_method, name="actor")

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Wait for news, a moment at most; steps that others have made are counted."""
        ended = self._listen(GLANCE)
        if self.exception_event is not None and self.exception_event.is_set():
            self._note_exception()
        if self._failures:
            self._fail()
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
        """End all processes, by force after 3 s."""
        self.workers.close(ask=self.stop)

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
                    self.statistics, self.state = content
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

    def _fail(self) -> None:
        """Let the other processes end, and tell what they said meanwhile."""
        self.stop()
        deadline = time.monotonic() + GRACE
        while self.workers.running and time.monotonic() < deadline:
            self._listen(GLANCE)
        self.close()
        reasons = {who: failure.reason for who, failure in self._failures.items()}
        tracebacks = {who: failure.traceback_text for who, failure in self._failures.items()}
        raise AsyncTrainingError(reasons, tracebacks) from getattr(self.exception_event, "error", None)
