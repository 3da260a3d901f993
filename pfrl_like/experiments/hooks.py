"""Hooks of the training loop: step hooks, which change a value, and timed hooks, which stop or save a run."""

import fnmatch
import functools
import operator
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from pfrl_like.runs.loop import Clock
from pfrl_like.utils.checks import check_function, check_numbers, nearest_names


class StepHook(ABC):
    """Base class of step hooks. Any function that can be called as (env, agent, step) can be used instead.

    Runners take them in `step_hooks`, `train_agent_async` in `global_step_hooks`.
    """

    @abstractmethod
    def __call__(self, env: Any, agent: Any, step: int) -> Any:
        """Run after a training step.

        Args:
            env: Environment that was passed to the runner.
            agent: Agent that is trained.
            step: Number of training steps so far.
        """

    def resume(self, env: Any, agent: Any, step: int) -> None:  # noqa: B027 - most hooks need none
        """Prepare the agent of a resumed run before its first step. The default does nothing.

        Args:
            env: Environment that was passed to the runner.
            agent: Agent that is trained.
            step: Number of training steps so far.
        """


class LinearInterpolationHook(StepHook):
    """Sets a value that changes linearly from step 1 to step `total_steps` and then stays constant.

    Runners take it in `step_hooks`, `train_agent_async` in `global_step_hooks`. Example that decays a learning rate::

        def set_lr(env, agent, value):
            for group in agent.optimizer.param_groups:
                group["lr"] = value

        train_agent(agent, env, 10**6, outdir, step_hooks=[LinearInterpolationHook(10**6, 1e-3, 0, set_lr)])

    Args:
        total_steps: Step at which `stop_value` is reached; it may have a fraction.
        start_value: Value at step 1.
        stop_value: Value at step `total_steps` and at all later steps.
        setter: Function that is called as `setter(env, agent, value)` at every step.

    Raises:
        ValueError: If `total_steps` is below 1.
        TypeError: If `total_steps` is not a number.
    """

    def __init__(
        self, total_steps: float, start_value: float, stop_value: float, setter: Callable[[Any, Any, Any], Any]
    ) -> None:
        check_numbers(1, total_steps=total_steps)
        self.total_steps, self.start_value, self.stop_value, self.setter = total_steps, start_value, stop_value, setter

    def __call__(self, env: Any, agent: Any, step: int) -> None:
        """Call the setter with the value for this step."""
        value = np.interp(step, [1, self.total_steps], [self.start_value, self.stop_value])
        self.setter(env, agent, float(value))

    def resume(self, env: Any, agent: Any, step: int) -> None:
        """Call the setter with the value for this step, because a checkpoint may not contain the value."""
        self(env, agent, step)


class ScheduleHook(StepHook):
    """Sets an attribute of the agent that changes from step 1 to step `total_steps` and then stays constant.

    Without `curve` the values are those of `LinearInterpolationHook`. Runners take it in `step_hooks`,
    `train_agent_async` in `global_step_hooks`. Examples::

        train_agent(agent, env, 10**6, outdir, step_hooks=[ScheduleHook(10**6, 1e-3, 0, "optimizer.lr")])
        ScheduleHook(10**5, 1.0, 0.05, "explorer.epsilon", curve=lambda progress: progress**0.5)

    An explorer that computes its own epsilon, such as `LinearDecayEpsilonGreedy`, overwrites the value: pass a
    `ConstantEpsilonGreedy`. Actors of `train_agent_actor_learner` have no optimiser, so only attributes of the actors,
    such as "explorer.epsilon", can be set there.

    Args:
        total_steps: Step at which `stop_value` is reached; it may have a fraction.
        start_value: Value at step 1.
        stop_value: Value at step `total_steps` and at all later steps.
        attribute: Name of the attribute, with dots for attributes of parts: "gamma", "explorer.epsilon". A name such as
            "optimizer.lr" sets the value in all parameter groups. If a group has an "lr_factor", its learning rate is
            the value times this factor. "q_func*_optimizer.lr" sets it in all parts whose name matches.
        curve: Function of the progress from 0 (step 1) to 1 (step `total_steps`). It returns the weight of
            `stop_value`, also from 0 to 1. If None, the value changes linearly.
        hold: Share of the steps, from 0 to below 1, before the value begins to change. Only without `curve`.

    Raises:
        ValueError: If the agent has no such attribute, at the first step, if `total_steps` is less than 1, or if `hold`
            is out of range or given together with `curve`.
        TypeError: If `total_steps` or a value is not a number.
    """

    def __init__(
        self,
        total_steps: float,
        start_value: float,
        stop_value: float,
        attribute: str,
        *,
        curve: Callable[[float], float] | None = None,
        hold: float = 0.0,
    ) -> None:
        check_numbers(1, total_steps=total_steps)
        check_numbers(start_value=start_value, stop_value=stop_value, hold=hold)
        check_function(optional=True, curve=curve)
        if not 0 <= hold < 1 or (hold and curve is not None):
            raise ValueError(f"hold is {hold} and curve is {curve!r:.80}, expected 0 <= hold < 1, and 0 with a curve")
        if hold:
            curve = functools.partial(_after, hold)
        self.start_value, self.stop_value, self.attribute, self.curve = start_value, stop_value, attribute, curve
        ends = (start_value, stop_value) if curve is None else (0.0, 1.0)
        self._interpolation = LinearInterpolationHook(total_steps, *ends, self._set)

    def __call__(self, env: Any, agent: Any, step: int) -> None:
        """Set the attribute to the value for this step."""
        self._interpolation(env, agent, step)

    def resume(self, env: Any, agent: Any, step: int) -> None:
        """Set the attribute to the value for this step."""
        self(env, agent, step)

    def _set(self, env: Any, agent: Any, value: float) -> None:
        if self.curve is not None:
            value = self.start_value + (self.stop_value - self.start_value) * float(self.curve(value))
        path, _, name = self.attribute.rpartition(".")
        try:
            for owner in self._owners(agent, path):
                if isinstance(owner, torch.optim.Optimizer) and name in owner.defaults:
                    for group in owner.param_groups:
                        group[name] = value * group.get("lr_factor", 1.0) if name == "lr" else value
                else:
                    getattr(owner, name)  # an attribute that does not exist must not be created
                    setattr(owner, name, value)
        except AttributeError as error:
            known = [
                *getattr(error.obj, "defaults", ()),
                *(each for each in dir(error.obj) if not each.startswith("_")),
            ]
            text = f"attribute is {self.attribute!r}, but {type(error.obj).__name__} has no attribute {error.name!r}"
            raise ValueError(f"{text}{nearest_names(str(error.name), known)}") from None

    def _owners(self, agent: Any, path: str) -> list[Any]:
        """Return the objects whose attribute is set: the agent, or the one or more parts that `path` names."""
        if "*" not in path:
            return [operator.attrgetter(path)(agent) if path else agent]
        owners = [part for name, part in vars(agent).items() if fnmatch.fnmatchcase(name, path)]
        if not owners:
            raise ValueError(f"attribute is {self.attribute!r}, but no attribute of {type(agent).__name__} matches")
        return owners


def _after(hold: float, progress: float) -> float:
    """Return the progress from `hold` to 1 as a number from 0 to 1; 0 before."""
    return max(0.0, (progress - hold) / (1 - hold))


class TimedHook(ABC):
    """Base class of hooks that act after some wall-clock time. All runners take them in `hooks`.

    Args:
        seconds: Number of seconds.
        minutes: Number of minutes, added to `seconds`.
        hours: Number of hours, added to `seconds`.

    Raises:
        ValueError: If a number is negative, or if all numbers are 0.
        TypeError: If an argument is not a number.
    """

    def __init__(self, *, seconds: float = 0.0, minutes: float = 0.0, hours: float = 0.0) -> None:
        check_numbers(0.0, seconds=seconds, minutes=minutes, hours=hours)
        self.seconds = seconds + 60.0 * minutes + 3600.0 * hours
        if not self.seconds:
            raise ValueError("seconds, minutes and hours are 0, expected a positive time, for example minutes=30")
        self._start: float | None = None  # None before the first tick

    @abstractmethod
    def __call__(self, clock: Clock) -> None:
        """Act if the time has passed.

        Args:
            clock: Clock of the run.
        """

    def elapsed(self) -> float:
        """Return the number of seconds since the first call."""
        now = time.monotonic()
        self._start = now if self._start is None else self._start
        return now - self._start


class StopAfter(TimedHook):
    """Ends training after some wall-clock time. The time that a resumed run has already used is included.

    All runners take it in `hooks`, `Made.train` too::

        train_agent(agent, env, 10**6, outdir, hooks=[StopAfter(hours=8)])

    Args:
        seconds: Number of seconds.
        minutes: Number of minutes, added to `seconds`.
        hours: Number of hours, added to `seconds`.
    """

    def __call__(self, clock: Clock) -> None:
        """End training if the time has passed."""
        if self.elapsed() >= self.seconds:
            clock.stop(f"{self.seconds:g} seconds have passed")

    def state_dict(self) -> dict[str, Any]:
        """Return the number of seconds that have passed."""
        return {"elapsed": self.elapsed()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`."""
        self._start = time.monotonic() - float(state["elapsed"])


class SaveEvery(TimedHook):
    """Saves a checkpoint `<t>_checkpoint` at regular intervals of wall-clock time. A run can resume from it.

    Runners take it in `hooks`, `Made.train` too::

        train_agent(agent, env, 10**6, outdir, hooks=[SaveEvery(minutes=30)])

    `EpochRunner` and `train_agent_async(use_shared_memory=False)` reject this hook, because they cannot save between
    two steps.

    Args:
        seconds: Number of seconds between checkpoints.
        minutes: Number of minutes, added to `seconds`.
        hours: Number of hours, added to `seconds`.
    """

    def __call__(self, clock: Clock) -> None:
        """Request a checkpoint if the time has passed."""
        if self.elapsed() >= self.seconds:
            self._start = time.monotonic()
            clock.save()
