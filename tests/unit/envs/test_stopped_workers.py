"""Environments whose processes are stopped: a step is over in time, however much there is to send."""

import os
import signal
from typing import Any

import gymnasium
import numpy as np
import pytest
from time_parts import PATIENCE

from pfrl_like.envs import MultiprocessVectorEnv
from pfrl_like.errors import WorkerError


class Wide(gymnasium.Env[Any, Any]):
    """Its actions and observations are larger than a pipe takes at once."""

    observation_space = action_space = gymnasium.spaces.Box(-1, 1, (10**6,), np.float64)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros(10**6), {}

    def step(self, action: Any) -> Any:
        return action, 1.0, False, False, {}


ACTIONS = [np.full(10**6, i / 10) for i in range(2)]


def stopped(**options: Any) -> MultiprocessVectorEnv:
    """Two environments, the first of which is stopped."""
    env = MultiprocessVectorEnv([Wide] * 2, "fork", shared_memory=False, **options)
    env.reset()
    obs, *_ = env.step(ACTIONS)
    assert all(np.array_equal(one, action) for one, action in zip(obs, ACTIONS, strict=True))
    os.kill(env._workers.processes[0].pid or 0, signal.SIGSTOP)
    env._workers.timeout = 1.0
    return env


@pytest.mark.usefixtures("few_words")
def test_step_with_large_actions_is_ended_in_time() -> None:
    env = stopped()
    with pytest.raises(WorkerError, match="worker 0 has not answered in time"):
        env.step(ACTIONS)
    assert env.closed


@pytest.mark.usefixtures("few_words")
def test_worker_that_takes_no_action_in_time_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    env = stopped(on_worker_failure="restart")
    restart = env._workers.restart

    def restart_patiently(index: int, arguments: Any) -> None:
        env._workers.timeout = PATIENCE  # from now on all have the time that they need
        restart(index, arguments)

    monkeypatch.setattr(env._workers, "restart", restart_patiently)
    _, rewards, _, truncated, infos = env.step(ACTIONS)
    assert rewards == (0.0, 1.0) and truncated == (True, False)
    told = "has not answered in time: it was asked for 'step', and step_timeout is 1 s"
    assert infos[0]["worker_restarted"] == told
    env.close()
