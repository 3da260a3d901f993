"""Step hooks of the training loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np


class StepHook(ABC):
    """Base class of step hooks. Any function that can be called as (env, agent, step) can be used instead."""

    @abstractmethod
    def __call__(self, env: Any, agent: Any, step: int) -> Any:
        """Run after a training step.

        Args:
            env: Environment that was passed to the runner.
            agent: Agent that is trained.
            step: Number of training steps so far.
        """


class LinearInterpolationHook(StepHook):
    """Sets a value that changes linearly from step 1 to step `total_steps` and then stays constant.

    Example that decays a learning rate::

        def set_lr(env, agent, value):
            for group in agent.optimizer.param_groups:
                group["lr"] = value

        hook = LinearInterpolationHook(10**6, 1e-3, 0, set_lr)

    Args:
        total_steps: Step at which `stop_value` is reached.
        start_value: Value at step 1.
        stop_value: Value at step `total_steps` and at all later steps.
        setter: Function that is called as `setter(env, agent, value)` at every step.
    """

    def __init__(
        self, total_steps: int, start_value: float, stop_value: float, setter: Callable[[Any, Any, Any], Any]
    ) -> None:
        self.total_steps, self.start_value, self.stop_value, self.setter = total_steps, start_value, stop_value, setter

    def __call__(self, env: Any, agent: Any, step: int) -> None:
        """Call the setter with the value for this step."""
        value = np.interp(step, [1, self.total_steps], [self.start_value, self.stop_value])
        self.setter(env, agent, float(value))
