"""The training loop: `run` calls a source, which makes training steps, and callbacks, which read a clock."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Terminated(SystemExit):
    """Raised at the end of a run that SIGTERM stopped. The exit status is 128 + the signal number.

    Args:
        signum: Signal number.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(128 + signum)
        self.signum = signum

    def __str__(self) -> str:
        return signal.Signals(self.signum).name


def error_of(signum: int) -> BaseException:
    """Return the exception for a signal: `KeyboardInterrupt` for SIGINT, else `Terminated`."""
    return KeyboardInterrupt() if signum == signal.SIGINT else Terminated(signum)


class Episode(NamedTuple):
    """A finished training episode.

    Attributes:
        total_reward: Undiscounted return.
        length: Number of steps.
        whole: False if the end of training truncated the episode.
    """

    total_reward: float
    length: int
    whole: bool = True


class Clock:
    """The progress of training. Callbacks read it. A tick is one call of `Source.tick`.

    Args:
        steps: Step at which training ends. If None, there is no limit.
        step_offset: Step at which training starts.

    Attributes:
        t: Number of environment steps so far, summed over all environments.
        previous_t: `t` before the last tick.
        episodes: Number of episodes that have ended so far.
        ended: Episodes that ended in the last tick.
        stopped: True if `stop` ended training.
        reason: Reason that was passed to `stop`. It is empty if no reason was passed.
        interrupted: Number of the signal that ended training. None if no signal ended training.
        save_requested: True if `save` was called and the checkpoint is not saved yet.
        between_episodes: True if no episode is running. Only then can an evaluation use the training environment.
        between_ticks: True if the loop has ended and its last tick is complete, so that the state of the run can be
            saved. False while the loop runs, and after an error.
    """

    def __init__(self, steps: int | None, step_offset: int = 0) -> None:
        self.steps = sys.maxsize if steps is None else steps
        self.t = self.previous_t = step_offset
        self.episodes = 0
        self.ended: Sequence[Episode] = ()
        self.stopped, self.reason = False, ""
        self.save_requested = False
        self.interrupted: int | None = None
        self.between_episodes = self.between_ticks = False

    @property
    def done(self) -> bool:
        """True if training is over."""
        return self.stopped or self.t >= self.steps

    def stop(self, reason: str = "") -> None:
        """End training after this tick."""
        self.stopped, self.reason = True, reason

    def save(self) -> None:
        """Save a checkpoint after this tick."""
        self.save_requested = True

    def interrupt(self, signum: int) -> None:
        """End training after this tick because of a signal. `run` then raises the exception of the signal."""
        self.interrupted = signum
        self.stop(signal.Signals(signum).name)


class Source(Protocol):
    """Interface of sources of training steps: an environment, several environments, or a dataset."""

    def tick(self, clock: Clock) -> Sequence[Episode]:
        """Make at least one training step, increase `clock.t`, and return the episodes that ended."""


class Resumable(Protocol):
    """Interface of objects that save and restore their state, such as sources, evaluators and callbacks.

    If the object has the property `draws_from`, a tuple of objects, the run also saves and restores the random
    generators inside these objects.
    """

    def saved_state(self) -> dict[str, Any]:
        """Return all state that later steps depend on, as JSON values."""

    def restore_state(self, state: Mapping[str, Any]) -> Sequence[str] | None:
        """Restore the result of `saved_state`.

        Returns:
            Reasons why later steps may differ from the steps of an uninterrupted run. Empty or None if later steps are
            equal.

        Raises:
            KeyError, TypeError, ValueError: If `state` is not a saved state of such an object.
        """


def unknown_state(reason: str) -> dict[str, str]:
    """Return a placeholder for the state of an object that cannot be saved.

    If the state of a source contains the placeholder, the checkpoint is marked as "approximate" for this reason.
    """
    return {"way": "unknown", "reason": reason}


Callback = Callable[[Clock], None]


def run(source: Source, clock: Clock, callbacks: Sequence[Callback]) -> None:
    """Call `source.tick` until training is over. After each tick, call every callback in order.

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
