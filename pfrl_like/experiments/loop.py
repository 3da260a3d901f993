"""The one training loop: a source advances training, callbacks look at the clock."""

import collections
import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol


class Episode(NamedTuple):
    """An episode that is over.

    Attributes:
        total_reward: Undiscounted return.
        length: Steps.
        finished: False if it was still running when the run ended.
    """

    total_reward: float
    length: int
    finished: bool = True


class Clock:
    """Where training stands; all that callbacks see of it.

    Args:
        steps: Step at which training ends.
        step_offset: Step at which it starts.
        return_window_size: Number of recent episodes whose returns are kept.

    Attributes:
        t: Environment steps so far, of all environments together.
        episodes: Episodes that are over.
        ended: Those that ended in the last tick.
        returns: Returns of the last finished episodes.
        stopped: Why training is over; None while it runs.
    """

    def __init__(self, steps: int, step_offset: int = 0, return_window_size: int = 100) -> None:
        self.steps = steps
        self.t = self.first_t = step_offset
        self.episodes = 0
        self.ended: Sequence[Episode] = ()
        self.returns: collections.deque[float] = collections.deque(maxlen=return_window_size)
        self.stopped: str | None = None
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since this clock was made."""
        return time.monotonic() - self._started

    def end_episodes(self, ended: Sequence[Episode]) -> None:
        """Take in the episodes that ended in the last tick."""
        self.ended = ended
        self.episodes += len(ended)
        self.returns.extend(episode.total_reward for episode in ended if episode.finished)

    def stop(self, reason: str) -> None:
        """End training; the first reason counts."""
        self.stopped = self.stopped or reason


class Source(Protocol):
    """Where training comes from: an environment, several, a dataset.

    Attributes:
        lost_steps: Steps made by a `tick` that raised.
    """

    lost_steps: int

    def tick(self) -> tuple[int, Sequence[Episode]]:
        """Advance training; return the number of steps made and the episodes that ended."""


#: Called at the end of every episode and no later than at the step that it returned the last time (`math.inf`: only at
#: the ends of episodes); once after the first tick.
Callback = Callable[[Clock], float]


def run(source: Source, clock: Clock, callbacks: Sequence[Callback]) -> None:
    """Let a source tick until a callback stops the clock.

    Between the ends of episodes a tick costs one comparison. Callbacks are called in order; those after the one that
    stops the clock are not.
    """
    if clock.t >= clock.steps:
        clock.stop("finished")
    alarm: float = clock.t
    while clock.stopped is None:
        try:
            steps, ended = source.tick()
        except BaseException:
            clock.t += source.lost_steps
            raise
        clock.t += steps
        if ended or clock.t >= alarm:
            clock.end_episodes(ended)
            alarm = math.inf
            for callback in callbacks:
                alarm = min(alarm, callback(clock))
                if clock.stopped is not None:
                    break


def stop_at_end(clock: Clock) -> float:
    """The callback that ends training at step `clock.steps`."""
    if clock.t >= clock.steps:
        clock.stop("finished")
    return clock.steps
