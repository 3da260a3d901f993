"""What the measurements of speed share: an environment that ends a training run, rates, memory."""

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium

WARM_STEPS = 2_000  # of training, not measured: the replay buffer's start and, with compile=True, the compiler


class OutOfTime(Exception):
    """Ends a training run from inside its environment, the same way for every library."""


class StopWatch(gymnasium.Wrapper):
    """Measures steps per second from step `warm_steps` on, then raises OutOfTime.

    Args:
        env: Stepped by the library.
        seconds: How long to measure, at least.
        warm_steps: Steps before that.
        unit: Steps between updates: as many rollouts are measured as updates.
    """

    def __init__(self, env: gymnasium.Env, seconds: float, warm_steps: int = WARM_STEPS, unit: int = 1) -> None:
        super().__init__(env)
        self.seconds, self.warm_steps, self.unit = seconds, warm_steps, unit
        self.steps, self.start = 0, 0.0

    def step(self, action: Any) -> Any:
        now, measured = time.perf_counter(), self.steps - self.warm_steps
        if measured == 0:
            self.start = now
        elif measured > 0 and measured % self.unit == 0 and now - self.start >= self.seconds:
            self.rate = measured / (now - self.start)
            raise OutOfTime
        self.steps += 1
        return self.env.step(action)


class FourValues:
    """A gymnasium environment as PFRL 0.4 expects it: `reset` gives the observation, `step` four values."""

    def __init__(self, env: gymnasium.Env) -> None:
        self.env = env
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self) -> Any:
        return self.env.reset()[0]

    def step(self, action: Any) -> tuple[Any, Any, bool, dict]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        info["needs_reset"] = truncated
        return obs, reward, terminated, info

    def close(self) -> None:
        self.env.close()


def calls_per_second(function: Callable[[], Any], seconds: float) -> float:
    for _ in range(100):
        function()
    calls, start = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        for _ in range(10):
            function()
        calls += 10
    return calls / elapsed


def resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
