"""Callbacks of the training loop: step hooks, logs, evaluation and a progress bar."""

import collections
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.loggers import MetricsLogger
from pfrl_like.optimizers.compiled_region import LISTENERS
from pfrl_like.processes.supervisor import close_all
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.runs.loop import Callback, Clock, Episode, Terminated

_LOGGER = logging.getLogger(__name__)


class StepHooks:
    """Calls every hook as `hook(env, agent, t)` for every step. `env` is the environment that the user passed."""

    def __init__(self, hooks: Sequence[Callable[[Any, Any, int], Any]], env: Any, agent: Any) -> None:
        self.hooks, self.env, self.agent = hooks, env, agent

    def __call__(self, clock: Clock) -> None:
        for t in range(clock.previous_t + 1, clock.t + 1):
            for hook in self.hooks:
                hook(self.env, self.agent, t)


class EpisodeLog:
    """Logs every finished episode to the loggers of metrics and, in serial runs, to the logging module.

    An episode that was truncated because training ended is logged only to the logging module: its return cannot be
    compared with other returns.

    Args:
        agent: Agent whose statistics are logged.
        loggers: Loggers of the metrics.
        logger: Logger that gets two lines for every episode. If None, no lines are logged.
        outdir: Run directory. The lines contain its name.
        further: Function that returns further metrics. They are logged with every episode.
    """

    def __init__(
        self,
        agent: Any,
        loggers: Sequence[MetricsLogger],
        logger: logging.Logger | None,
        outdir: str,
        further: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.agent, self.loggers, self.logger, self.outdir, self.further = agent, loggers, logger, outdir, further

    def __call__(self, clock: Clock) -> None:
        for number, each in enumerate(clock.ended, clock.episodes - len(clock.ended)):
            metrics = {"episode": number, "return": each.total_reward, "length": each.length, **self.further()}
            for logger in self.loggers if each.whole else ():
                logger.log(clock.t, metrics)
            if self.logger is not None and self.logger.isEnabledFor(logging.INFO):
                self.logger.info("outdir:%s step:%s episode:%s R:%s", self.outdir, clock.t, number, each.total_reward)
            if self.logger is not None:  # as in PFRL, the statistics are asked even if they are not logged
                self.logger.info("statistics:%s", statistics_at(clock, self.agent))


class IntervalLog:
    """Logs the mean return of the last `window` episodes every `interval` steps, in runs with a vector environment."""

    def __init__(self, agent: Any, interval: int | None, window: int, logger: logging.Logger, outdir: str) -> None:
        self.agent, self.interval, self.logger, self.outdir = agent, interval, logger, outdir
        self.returns: collections.deque[float] = collections.deque(maxlen=window)

    def __call__(self, clock: Clock) -> None:
        self.returns.extend(episode.total_reward for episode in clock.ended)
        if self.interval is None or clock.t // self.interval == clock.previous_t // self.interval:
            return
        last, mean = (self.returns[-1], np.mean(self.returns)) if self.returns else (np.nan, np.nan)
        self.logger.info(
            "outdir:%s step:%s episode:%s last_R:%s average_R:%s", self.outdir, clock.t, clock.episodes, last, mean
        )
        self.logger.info("statistics:%s", statistics_at(clock, self.agent))

    def saved_state(self) -> dict[str, Any]:
        """Return the returns of the last episodes."""
        return {"returns": [*self.returns]}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self.returns.extend(state["returns"])


#: Attributes of the clock that describe its last tick, beside `ended`.
_OF_TICK = ("previous_t", "between_episodes")


class Evaluation:
    """Evaluates the agent when an evaluation is due, and ends training after a good score or if a hook requests it.

    Args:
        evaluator: Object whose method `evaluate_if_necessary(t=, episodes=)` returns a score, or None if no evaluation
            is due. If evaluations run elsewhere, its class has two further methods: `take_scores()` returns a list of
            (statistics, score), which the history gets instead, and `finish(t=, episodes=)` waits for evaluations.
        agent: Agent whose statistics are stored with every score.
        successful_score: Training ends when an evaluation reaches this score. If None, this condition is disabled.
        during_episode: True to allow evaluation during an episode.
        hooks: Hooks of the evaluator. Training ends when the `stop_reason` of a hook is not empty.
        restart: Function that is called with the evaluation environment after each evaluation. If it is the training
            environment, the function starts new training episodes.
    """

    def __init__(
        self,
        evaluator: Any,
        agent: Any,
        successful_score: float | None,
        during_episode: bool,
        hooks: Sequence[Any] = (),
        restart: Callable[[Any], None] | None = None,
    ) -> None:
        self.evaluator, self.agent, self.hooks = evaluator, agent, hooks
        self.successful_score, self.during_episode = successful_score, during_episode
        self.restart = restart
        self.history: list[dict[str, Any]] = []
        self._interrupted: dict[str, Any] | None = None  # values of the clock at the evaluation that was interrupted

    def __call__(self, clock: Clock) -> None:
        is_last = clock.done and clock.interrupted is None
        if self.during_episode or clock.ended or is_last:
            self._evaluate(clock)

    def _evaluate(self, clock: Clock) -> None:
        """Evaluate if an evaluation is due. If a signal interrupts it, mark the state of the run as complete."""
        try:
            score = self.evaluator.evaluate_if_necessary(t=clock.t, episodes=clock.episodes)
        except (KeyboardInterrupt, Terminated):
            if getattr(self.evaluator, "is_interrupted", False) is True:
                ended = [list(episode) for episode in clock.ended]
                self._interrupted = {name: getattr(clock, name) for name in _OF_TICK} | {"ended": ended}
                clock.between_ticks = True  # a resumed run repeats the evaluation, and then finishes this tick
            raise
        self._interrupted = None
        self._append([] if score is None else [(statistics_at(clock, self.agent), score)], clock)

    def _append(self, scores: Sequence[tuple[Any, float]], clock: Clock) -> None:
        """Append scores and statistics to the history. End training if that is due."""
        if hasattr(type(self.evaluator), "take_scores"):
            scores = self.evaluator.take_scores()
        if not scores:
            return
        if self.restart is not None:
            self.restart(getattr(self.evaluator, "env", None))
        self.history += [{**dict(statistics), "eval_score": score} for statistics, score in scores]
        self.stop_if_due(clock)

    def finish(self, clock: Clock) -> None:
        """Wait for evaluations that run elsewhere, unless a signal has ended training."""
        if clock.interrupted is None and hasattr(type(self.evaluator), "take_scores"):
            self.evaluator.finish(t=clock.t, episodes=clock.episodes)
            self._append([], clock)

    def finish_tick(self, clock: Clock, callbacks: Sequence[Callback]) -> bool:
        """Repeat the evaluation that a signal has interrupted before the run was resumed, if there is one.

        Args:
            clock: Clock of the resumed run.
            callbacks: Callbacks that come after the evaluation. They are called, too, to finish the tick.

        Returns:
            True if an evaluation was repeated. The caller then replaces the checkpoint, which still requests it.
        """
        if self._interrupted is None:
            return False
        # The process may have been killed after it repeated the evaluation and before it saved a checkpoint.
        getattr(self.evaluator, "drop_scores", lambda t: None)(clock.t)
        clock.previous_t, clock.between_episodes = (self._interrupted[name] for name in _OF_TICK)
        clock.ended = [Episode(*episode) for episode in self._interrupted["ended"]]
        clock.between_ticks = False
        self._evaluate(clock)
        for callback in callbacks:
            callback(clock)
        return True

    def stop_if_due(self, clock: Clock) -> None:
        """End training if any score so far has reached `successful_score`, or if a hook has a reason."""
        for reason in (getattr(hook, "stop_reason", "") for hook in self.hooks):
            if isinstance(reason, str) and reason:
                clock.stop(reason)
        if self.success is not None:
            clock.stop(f"score {self.success:.1f} >= {self.successful_score:g}")

    @property
    def success(self) -> float | None:
        """The latest score that has reached `successful_score`; None if there is none."""
        if self.successful_score is None:
            return None
        scores = (row["eval_score"] for row in reversed(self.history))
        return next((score for score in scores if score >= self.successful_score), None)

    def saved_state(self) -> dict[str, Any]:
        """Return the statistics and scores of all evaluations so far, and the evaluation that was interrupted."""
        return {"history": self.history, "interrupted": self._interrupted}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Restore the result of `saved_state`. The evaluator itself is restored separately.

        Returns:
            A list with one message if the evaluator has no `restore_state`, else an empty list.
        """
        self.history[:] = state["history"]
        self._interrupted = state.get("interrupted")  # older versions did not save it
        can_restore = hasattr(self.evaluator, "restore_state")
        return () if can_restore else [f"evaluator: {type(self.evaluator).__name__} has no restore_state"]

    def close(self) -> None:
        """Close the files of the evaluator."""
        close_all([self.evaluator])


def save_agent(agent: Any, t: int | str, outdir: str, logger: logging.Logger, suffix: str = "") -> None:
    """Save an agent as `<outdir>/<t><suffix>`, without a change of the random streams.

    If the agent cannot be saved, a new directory is removed.
    """
    dirname = os.path.join(outdir, f"{t}{suffix}")
    if not hasattr(agent, "save"):
        logger.warning("The agent (%s) has no method save; %s was not written", type(agent).__name__, dirname)
        return
    is_new = not os.path.lexists(dirname)
    try:
        with isolated_rng():
            agent.save(dirname)
    except (CheckpointError, OSError):  # other errors may name the files, so keep them
        if is_new:
            shutil.rmtree(dirname, ignore_errors=True)
        raise
    logger.info("Saved the agent to %s", dirname)


def statistics_at(clock: Clock, agent: Any) -> list[tuple[str, Any]]:
    """Return the statistics of an agent. After the last step an error is logged, so that the run still finishes."""
    try:
        return statistics_of(agent)
    except Exception:
        if not clock.done:
            raise
        _LOGGER.exception("get_statistics failed after the last step")
        return []


def statistics_of(agent: Any) -> list[tuple[str, Any]]:
    """Return the statistics of an agent or an environment as (name, value) pairs; an empty list if there are none."""
    statistics: Any = getattr(agent, "get_statistics", list)()
    return list(statistics) if isinstance(statistics, Iterable) else []


#: Maximum and minimum width of the bar in columns. If less space is left, the bar is not drawn.
WIDTH, MIN_WIDTH = 24, 8

#: Parts of the line that may be removed. If the line is too long, they are removed in this order.
DISPENSABLE = ("speed", "score", "return", "time")

_SEPARATOR = "  "
#: Number of seconds for which the line shows a text that was passed to `Progress.tell`.
NOTICE_SECONDS = 10.0


def wants_progress(progress: bool | None) -> bool:
    """True if the progress bar is shown. If `progress` is None, the bar is shown only on a terminal."""
    return sys.stderr.isatty() if progress is None else progress


class Progress:
    """Draws a progress bar as wide as the terminal. If there is no terminal, prints a line of text every 10 seconds.

    Args:
        steps: Step at which training ends.
        step_offset: Step at which training starts.
        evaluator: Evaluator whose `max_score` is shown. If None, no score is shown.
        stream: Stream to write to. If None, the standard error stream is used.
        clock: Function that returns the time in seconds.
        closing: Function that returns the last line to print, or an empty string.
        waits: Function that returns the reason why no update has been made yet, or an empty string. The function is
            called for every line.
        opening: Line that is printed at construction. If the line is empty, nothing is printed.
    """

    def __init__(
        self,
        steps: int,
        step_offset: int = 0,
        evaluator: Any = None,
        stream: TextIO | None = None,
        clock: Any = None,
        closing: Callable[[], str] = str,
        waits: Callable[[], str] = str,
        opening: str = "",
    ) -> None:
        self.stream = stream or sys.stderr
        if opening:
            self.stream.write(f"{opening}\n")
        self.now = clock or time.monotonic
        self.steps, self.first, self.evaluator = steps, step_offset, evaluator
        self.closing, self.waits = closing, waits
        self.is_terminal = self.stream.isatty()
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        can_draw = "█░".encode(encoding, "ignore").decode(encoding) == "█░"
        self.full, self.empty = ("█", "░") if can_draw else ("#", "-")
        self.interval = 0.2 if self.is_terminal else 10.0
        self.returns: collections.deque[float] = collections.deque(maxlen=20)
        self.started = self.shown = self.now()
        self._last: Clock | None = None
        self._notice, self._notice_at = "", -NOTICE_SECONDS
        LISTENERS.add(self)

    def __call__(self, clock: Clock) -> None:
        """Show the progress, at most once every `interval` seconds. `close` shows the final progress."""
        self._last = clock
        if clock.ended:
            self.returns.extend(episode.total_reward for episode in clock.ended)
        now = self.now()
        if now - self.shown >= self.interval:
            self.shown = now
            self._write(clock, now)

    def tell(self, text: str) -> None:
        """Show a notice in the line for `NOTICE_SECONDS`, for example that compilation delays the run."""
        self._notice, self._notice_at = text, self.now()
        if self._last is not None:
            self._write(self._last, self._notice_at)

    def close(self) -> None:
        """Print the final progress, the step at which training ended, and the reason."""
        LISTENERS.discard(self)
        clock = self._last
        if clock is None:
            return
        self._write(clock, self.now())
        ending = "stopped" if clock.stopped else "finished" if clock.done else "interrupted"
        reason = f": {clock.reason}" if clock.reason else ""
        newline = "\n" if self.is_terminal else ""
        self.stream.write(f"{newline}{ending} at step {clock.t:,}{reason}\n")
        if words := self.closing():
            self.stream.write(f"{words}\n")
        self.stream.flush()

    def _write(self, clock: Clock, now: float) -> None:
        speed = (clock.t - self.first) / max(now - self.started, 1e-9)
        share = min(clock.t / self.steps, 1.0) if self.steps else 1.0
        parts = {"share": f"{share:4.0%}", "steps": f"{clock.t:,}/{self.steps:,} steps", "speed": f"{speed:,.0f}/s"}
        if self.returns:
            parts["return"] = f"return {sum(self.returns) / len(self.returns):.1f}"
        if self.evaluator is not None and self.evaluator.max_score > -1e38:
            parts["score"] = f"best score {self.evaluator.max_score:.1f}"
        left = (self.steps - clock.t) / max(speed, 1e-9)
        parts["time"] = f"{_duration(now - self.started)} + {_duration(left)} left"
        if words := self._notice if now - self._notice_at < NOTICE_SECONDS else self.waits():
            parts["notice"] = words
        if self.is_terminal:
            room = _columns(self.stream) - 1  # some terminals begin a new line in the last column
            text = _shortened(parts, room)
            self.stream.write(f"\r{self._bar(share, room - len(text))}{text}\x1b[K")
        else:
            self.stream.write(f"{_SEPARATOR.join(parts.values())}\n")
        self.stream.flush()

    def _bar(self, share: float, room: int) -> str:
        """Return the bar followed by a space; an empty string if fewer than `MIN_WIDTH` columns are left."""
        width = min(WIDTH, room - 1)
        if width < MIN_WIDTH:
            return ""
        n_full = int(share * width)
        return self.full * n_full + self.empty * (width - n_full) + " "


def _columns(stream: TextIO) -> int:
    """Return the current number of columns of the terminal of a stream."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # the stream has no descriptor, or is not a terminal
        columns = 0
    return columns or shutil.get_terminal_size().columns


def _shortened(parts: Mapping[str, str], room: int) -> str:
    """Return the parts as one line. Parts are removed until the line fits into `room` columns."""
    remaining = dict(parts)
    for name in DISPENSABLE:
        if len(_SEPARATOR.join(remaining.values())) <= room:
            break
        remaining.pop(name, None)
    return _SEPARATOR.join(remaining.values())[: max(room, 0)]


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
