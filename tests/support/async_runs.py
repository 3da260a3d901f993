"""Asynchronous runs in small chains, of which one may fail."""

import os
import signal
from collections.abc import Callable
from typing import Any

from pfrl_like.experiments import train_agent_async
from pfrl_like.testing import Chain


def make_env(process_idx: int, test: bool) -> Chain:
    """A small environment."""
    return Chain(4, time_limit=7)


def run(outdir: Any, agent: Any = None, *, steps: int = 60, processes: int = 2, **options: Any) -> Any:
    """Train in several processes, without evaluation."""
    arguments = {"make_env": make_env, "start_method": "fork", "eval_interval": None, "agent": agent, **options}
    return train_agent_async(outdir, processes, steps=steps, **arguments)


class Failing(Chain):
    """Raises at its 40th step, or kills its process."""

    def __init__(self, kills: bool) -> None:
        super().__init__(4, time_limit=7)
        self.kills, self.count = kills, 0

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 40 and self.kills:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.count == 40:
            raise ZeroDivisionError("in the middle of it")
        return super().step(action)


def failing(index: int, kills: bool = False) -> Callable[[int, bool], Chain]:
    """Makes environments, of which that of a process fails."""
    return lambda process_idx, test: Failing(kills) if process_idx == index else make_env(process_idx, test)
