"""The one training loop: a source advances training, callbacks look at the clock."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Terminated(SystemExit):
    """SIGTERM has ended training: all is tidied up, and the process ends with the status of one that died of it.

    Args:
        signum: The signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        return signal.Signals(self.signum).name


def error_of(signum: int) -> BaseException:
    """What a signal means where it is raised."""
    return KeyboardInterrupt() if signum == signal.SIGINT else Terminated(signum)


class Episode(NamedTuple):
    """A finished training episode.

    Attributes:
        total_reward: Undiscounted return.
        length: Steps.
    """

    total_reward: float
    length: int


class Clock:
    """Where training stands; all that callbacks see of it.

    Args:
        steps: Step at which training ends; None for no end.
        step_offset: Step at which it starts.

    Attributes:
        t: Environment steps so far, of all environments together.
        previous_t: `t` before the last tick.
        episodes: Episodes finished so far.
        ended: Episodes that ended in the last tick.
        stopped: Whether `stop` ended training; `reason` is why, in words.
        interrupted: The signal that ended training; None for none.
        between_episodes: Whether no episode is running, so that even a shared environment may be used otherwise.
        between_ticks: Whether the loop has ended, so that nothing is half done; a signal may have ended it.
    """

    def __init__(self, steps: int | None, step_offset: int = 0) -> None:
        self.steps = sys.maxsize if steps is None else steps
        self.t = self.previous_t = step_offset
        self.episodes = 0
        self.ended: Sequence[Episode] = ()
        self.between_episodes = False
        self.stopped, self.reason = False, ""
        self.interrupted: int | None = None
        self.between_ticks = False

    @property
    def done(self) -> bool:
        """Whether training is over."""
        return self.stopped or self.t >= self.steps

    def stop(self, reason: str = "") -> None:
        """End training after this tick."""
        self.stopped, self.reason = True, reason

    def interrupt(self, signum: int) -> None:
        """End training after this tick because of a signal, which takes its effect then."""
        self.interrupted = signum
        self.stop(signal.Signals(signum).name)


class Source(Protocol):
    """Where training comes from: an environment, several, a dataset."""

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Advance training, and `clock.t`, by at least one step; return the episodes that ended."""


class Resumable(Protocol):
    """What goes on in another process where it was: sources, evaluators, callbacks, algorithms.

    One with the property `draws_from`, a tuple of objects, leaves the random streams of these to the run.
    """

    def saved_state(self) -> dict[str, Any]:
        """All that later steps depend on, in values that JSON takes."""

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str] | None:
        """Take up what `saved_state` gave.

        Returns:
            Why later steps may differ from those of a run that was not stopped; nothing or None if they do not.

        Raises:
            KeyError, TypeError, ValueError: If it comes from something else.
        """


def unknown(reason: str) -> dict[str, str]:
    """What is saved, wherever in the state of a source, of something that may be another one when the run goes on."""
    return {"way": "unknown", "reason": reason}


Callback = Callable[[Clock], None]


def run(source: Source, clock: Clock, callbacks: Sequence[Callback]) -> None:
    """Let a source tick until the clock says that training is over; call every callback, in order, after each tick.

    Raises:
        KeyboardInterrupt: If SIGINT ended it before the last step.
        Terminated: If SIGTERM did.
    """
    clock.between_ticks = False
    while not clock.done:
        clock.previous_t = clock.t
        clock.ended = source.tick(clock)
        if clock.ended:
            clock.episodes += len(clock.ended)
        for callback in callbacks:
            callback(clock)
    clock.between_ticks = True
    if clock.interrupted is not None and clock.t < clock.steps:
        raise error_of(clock.interrupted)
