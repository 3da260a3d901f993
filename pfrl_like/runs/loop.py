"""The training loop: a source advances training, callbacks read the clock."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Terminated(SystemExit):
    """Raised after SIGTERM has ended training and the run is closed; the exit status is 128 + the signal's number.

    Args:
        signum: The signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        return signal.Signals(self.signum).name


def error_of(signum: int) -> BaseException:
    """The exception that a signal raises: `KeyboardInterrupt` for SIGINT, else `Terminated`."""
    return KeyboardInterrupt() if signum == signal.SIGINT else Terminated(signum)


class Episode(NamedTuple):
    """A finished training episode.

    Attributes:
        total_reward: Undiscounted return.
        length: Steps.
        whole: False if the end of training cut it off.
    """

    total_reward: float
    length: int
    whole: bool = True


class Clock:
    """The progress of training, and all that callbacks see of it.

    Args:
        steps: Step at which training ends; None for no end.
        step_offset: Step at which training starts.

    Attributes:
        t: Environment steps so far, summed over all environments.
        previous_t: `t` before the last tick.
        episodes: Episodes finished so far.
        ended: Episodes that ended in the last tick.
        stopped: True if `stop` ended training.
        reason: The argument of `stop`, a text.
        interrupted: The signal that ended training; None for none.
        between_episodes: True if no episode is running, so that even a shared environment may be used for something
            else.
        between_ticks: True if the loop has ended, normally or by a signal, and no tick is incomplete.
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
        """True if training is over."""
        return self.stopped or self.t >= self.steps

    def stop(self, reason: str = "") -> None:
        """End training after this tick."""
        self.stopped, self.reason = True, reason

    def interrupt(self, signum: int) -> None:
        """End training after this tick because of a signal; its exception is raised then."""
        self.interrupted = signum
        self.stop(signal.Signals(signum).name)


class Source(Protocol):
    """The source of training steps: an environment, several environments, or a dataset."""

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Advance training, and `clock.t`, by at least one step; return the episodes that ended."""


class Resumable(Protocol):
    """An object that another process can resume from its saved state: sources, evaluators, callbacks, algorithms.

    If it has the property `draws_from`, a tuple of objects, the run saves and restores the random streams of these.
    """

    def saved_state(self) -> dict[str, Any]:
        """Everything that later steps depend on, as values that JSON can represent."""

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str] | None:
        """Restore what `saved_state` returned.

        Returns:
            Reasons why later steps may differ from those of an uninterrupted run; empty or None if they do not.

        Raises:
            KeyError, TypeError, ValueError: If the state belongs to something else.
        """


def unknown(reason: str) -> dict[str, str]:
    """The state saved for a part that cannot be identified when the run resumes.

    It may stand anywhere in the state of a source.
    """
    return {"way": "unknown", "reason": reason}


Callback = Callable[[Clock], None]


def run(source: Source, clock: Clock, callbacks: Sequence[Callback]) -> None:
    """Call the source's `tick` until training is over; call every callback, in order, after each tick.

    Raises:
        KeyboardInterrupt: If SIGINT ended training before the last step.
        Terminated: If SIGTERM ended training before the last step.
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
