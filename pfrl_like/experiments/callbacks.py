"""Callbacks beside training: hooks, logs, evaluation, a progress bar. Each sees only the clock."""

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
from pfrl_like.runs.loop import Clock


class StepHooks:
    """Calls every hook as `hook(env, agent, t)` for every step, with the user's own environment."""

    def __init__(self, hooks: Sequence[Callable[[Any, Any, int], Any]], env: Any, agent: Any) -> None:
        self.hooks, self.env, self.agent = hooks, env, agent

    def __call__(self, clock: Clock) -> None:
        for t in range(clock.previous_t + 1, clock.t + 1):
            for hook in self.hooks:
                hook(self.env, self.agent, t)


class EpisodeLog:
    """Writes a line for every finished episode: to the loggers, and to the logging module (serial runs).

    Args:
        agent: Asked for its statistics.
        loggers: Where the metrics go.
        logger: Where a line for people goes; None for none.
        outdir: Named in that line.
    """

    def __init__(
        self, agent: Any, loggers: Sequence[MetricsLogger], logger: logging.Logger | None, outdir: str
    ) -> None:
        self.agent, self.loggers, self.logger, self.outdir = agent, loggers, logger, outdir

    def __call__(self, clock: Clock) -> None:
        for number, each in enumerate(clock.ended, clock.episodes - len(clock.ended)):
            metrics = {"episode": number, "return": each.total_reward, "length": each.length}
            for logger in self.loggers:
                logger.log(clock.t, metrics)
            if self.logger is not None and self.logger.isEnabledFor(logging.INFO):
                self.logger.info("outdir:%s step:%s episode:%s R:%s", self.outdir, clock.t, number, each.total_reward)
                self.logger.info("statistics:%s", statistics_of(self.agent))


class IntervalLog:
    """Logs the mean return of recent episodes every `interval` steps (batch runs)."""

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
        self.logger.info("statistics:%s", statistics_of(self.agent))

    def saved_state(self) -> dict[str, Any]:
        """The recent returns."""
        return {"returns": [*self.returns]}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self.returns.extend(state["returns"])


class Evaluation:
    """Evaluates when it is due, and ends training when the score is good enough.

    Args:
        evaluator: Object with `evaluate_if_necessary(t=, episodes=)`, which gives a score if it was.
        agent: Asked for its statistics.
        successful_score: Score that ends training; None for none.
        during_episode: Whether evaluation may interrupt an episode.
    """

    def __init__(self, evaluator: Any, agent: Any, successful_score: float | None, during_episode: bool) -> None:
        self.evaluator, self.agent = evaluator, agent
        self.successful_score, self.during_episode = successful_score, during_episode
        self.history: list[dict[str, Any]] = []

    def __call__(self, clock: Clock) -> None:
        is_last = clock.done and clock.interrupted is None
        if not (self.during_episode or clock.ended or is_last):
            return
        score = self.evaluator.evaluate_if_necessary(t=clock.t, episodes=clock.episodes)
        if score is not None:
            self.history.append({**dict(statistics_of(self.agent)), "eval_score": score})
            self.stop_if_successful(clock)

    def stop_if_successful(self, clock: Clock) -> None:
        """End training if a score so far is good enough."""
        if self.successful_score is None:
            return
        for score in (one["eval_score"] for one in self.history):
            if score >= self.successful_score:
                clock.stop(f"score {score:.1f} >= {self.successful_score:g}")

    def saved_state(self) -> dict[str, Any]:
        """The statistics so far."""
        return {"history": self.history}

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str]:
        """Take up what `saved_state` gave, and say if the evaluator, which is a part of its own, cannot."""
        self.history[:] = state["history"]
        known = hasattr(self.evaluator, "restore_state")
        return () if known else [f"evaluator: a {type(self.evaluator).__name__} has no restore_state"]

    def close(self) -> None:
        """Close what the evaluator has opened."""
        close_all([self.evaluator])


def save_agent(agent: Any, t: int | str, outdir: str, logger: logging.Logger, suffix: str = "") -> None:
    """Save an agent as `<outdir>/<t><suffix>`, without a trace in the random streams; nothing stays of a failure."""
    dirname = os.path.join(outdir, f"{t}{suffix}")
    if not hasattr(agent, "save"):
        logger.warning("The agent (%s) has no method save, so that %s was not written", type(agent).__name__, dirname)
        return
    is_new = not os.path.lexists(dirname)
    try:
        with isolated_rng():
            agent.save(dirname)
    except (CheckpointError, OSError):  # other errors may be told of what was saved before them
        if is_new:
            shutil.rmtree(dirname, ignore_errors=True)
        raise
    logger.info("Saved the agent to %s", dirname)


def statistics_of(agent: Any) -> list[tuple[str, Any]]:
    """The (name, value) pairs of an agent or an environment, none of one that keeps none."""
    statistics: Any = getattr(agent, "get_statistics", list)()
    return list(statistics) if isinstance(statistics, Iterable) else []


#: Columns of the bar at most, and at least: it is left out where there are fewer.
WIDTH, MIN_WIDTH = 24, 8

#: What is left out where the line is too long, first to last.
DISPENSABLE = ("speed", "score", "return", "time")

_SEPARATOR = "  "
#: Seconds for which the line shows what `tell` was given.
TOLD_FOR = 10.0


def wants_progress(progress: bool | None) -> bool:
    """Whether to show progress; None means only on a terminal."""
    return sys.stderr.isatty() if progress is None else progress


class Progress:
    """Draws a bar on a terminal, as wide as that is, and prints a plain line now and then elsewhere.

    Args:
        steps: Step at which training ends.
        step_offset: Step at which it starts.
        evaluator: Its `max_score` is shown, if there is one.
        stream: Where to write; None is the standard error stream.
        clock: Gives the time in seconds.
        last_words: Gives what is to be told at the end, if anything.
        waits: Gives what the first update waits for, "" for nothing; asked for with every line.
    """

    def __init__(
        self,
        steps: int,
        step_offset: int = 0,
        evaluator: Any = None,
        stream: TextIO | None = None,
        clock: Any = None,
        last_words: Callable[[], str] = str,
        waits: Callable[[], str] = str,
    ) -> None:
        self.stream = stream or sys.stderr
        self.now = clock or time.monotonic
        self.steps, self.first, self.evaluator = steps, step_offset, evaluator
        self.last_words, self.waits = last_words, waits
        self.is_terminal = self.stream.isatty()
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        can_draw = "█░".encode(encoding, "ignore").decode(encoding) == "█░"
        self.full, self.empty = ("█", "░") if can_draw else ("#", "-")
        self.interval = 0.2 if self.is_terminal else 10.0
        self.returns: collections.deque[float] = collections.deque(maxlen=20)
        self.started = self.shown = self.now()
        self._last: Clock | None = None
        self._told, self._told_at = "", -TOLD_FOR
        LISTENERS.add(self)

    def __call__(self, clock: Clock) -> None:
        """Show the clock, unless that was done a moment ago; `close` shows the last state."""
        self._last = clock
        if clock.ended:
            self.returns.extend(episode.total_reward for episode in clock.ended)
        now = self.now()
        if now - self.shown >= self.interval:
            self.shown = now
            self._write(clock, now)

    def tell(self, text: str) -> None:
        """Show a text in the line, at once and for some seconds: of a compiler, which lets the run wait."""
        self._told, self._told_at = text, self.now()
        if self._last is not None:
            self._write(self._last, self._told_at)

    def close(self) -> None:
        """Leave the last state on the screen, and how training ended."""
        LISTENERS.discard(self)
        clock = self._last
        if clock is None:
            return
        self._write(clock, self.now())
        ending = "stopped" if clock.stopped else "finished" if clock.done else "broken off"
        reason = f": {clock.reason}" if clock.reason else ""
        newline = "\n" if self.is_terminal else ""
        self.stream.write(f"{newline}{ending} at step {clock.t:,}{reason}\n")
        if words := self.last_words():
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
        if words := self._told if now - self._told_at < TOLD_FOR else self.waits():
            parts["told"] = words
        if self.is_terminal:
            room = _columns(self.stream) - 1  # in the last column some terminals begin a new line
            text = _shortened(parts, room)
            self.stream.write(f"\r{self._bar(share, room - len(text))}{text}\x1b[K")
        else:
            self.stream.write(f"{_SEPARATOR.join(parts.values())}\n")
        self.stream.flush()

    def _bar(self, share: float, room: int) -> str:
        """A bar and a space; empty where there is no room."""
        width = min(WIDTH, room - 1)
        if width < MIN_WIDTH:
            return ""
        n_full = int(share * width)
        return self.full * n_full + self.empty * (width - n_full) + " "


def _columns(stream: TextIO) -> int:
    """Columns of the terminal that a stream writes to, which may change at any time."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # it has no descriptor, or that of no terminal
        columns = 0
    return columns or shutil.get_terminal_size().columns


def _shortened(parts: Mapping[str, str], room: int) -> str:
    """As much of a line as fits."""
    kept = dict(parts)
    for name in DISPENSABLE:
        if len(_SEPARATOR.join(kept.values())) <= room:
            break
        kept.pop(name, None)
    return _SEPARATOR.join(kept.values())[: max(room, 0)]


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
