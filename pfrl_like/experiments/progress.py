"""A progress bar: step, speed, latest return and score, time left."""

import collections
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from pfrl_like.experiments.loop import Clock
from pfrl_like.optimizers.compiled_region import LISTENERS

WIDTH = 24
#: Seconds for which the line shows what `tell` was given.
TOLD_FOR = 10.0


def wants_progress(progress: bool | None) -> bool:
    """Whether to show progress; None means only on a terminal."""
    return sys.stderr.isatty() if progress is None else progress


class Progress:
    """Draws a bar on a terminal, and prints a plain line now and then elsewhere.

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
        parts = [f"{clock.t:,}/{self.steps:,} steps", f"{speed:,.0f}/s"]
        if self.returns:
            parts.append(f"return {sum(self.returns) / len(self.returns):.1f}")
        if self.evaluator is not None and self.evaluator.max_score > -1e38:
            parts.append(f"best score {self.evaluator.max_score:.1f}")
        left = (self.steps - clock.t) / max(speed, 1e-9)
        parts.append(f"{_duration(now - self.started)} + {_duration(left)} left")
        if words := self._told if now - self._told_at < TOLD_FOR else self.waits():
            parts.append(words)
        text = "  ".join(parts)
        if self.is_terminal:
            bar = "█" * int(share * WIDTH) + "░" * (WIDTH - int(share * WIDTH))
            self.stream.write(f"\r{bar} {share:4.0%}  {text}\x1b[K")
        else:
            self.stream.write(f"{share:4.0%}  {text}\n")
        self.stream.flush()


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
