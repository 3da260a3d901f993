"""An environment that allows one action of three, another one in every step."""

from typing import Any

import gymnasium
import numpy as np
import torch

from pfrl_like.replay_buffers import ReplayBuffer


class OneAllowed(gymnasium.Env[Any, Any]):
    """Observes the step of an episode of five, allows the action `step % 3` alone, and raises at another one."""

    observation_space = gymnasium.spaces.Box(-10, 10, (5,), np.float32)

    def __init__(self) -> None:
        self.action_space = gymnasium.spaces.Discrete(3, seed=0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self._obs(), self._info()

    def step(self, action: Any) -> Any:
        assert int(action) == self.t % 3, f"action {action} is forbidden in step {self.t}"
        self.t += 1
        return self._obs(), 1.0, self.t == 5, False, self._info()

    def _obs(self) -> Any:
        return np.full(5, self.t, np.float32)

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.arange(3) == self.t % 3}


def check_stored(buffer: ReplayBuffer) -> None:
    """Every step has the masks of its two observations."""
    batch = buffer.sample_batch(len(buffer))
    for obs, mask in ((batch.obs, batch.action_mask), (batch.next_obs, batch.next_action_mask)):
        assert torch.equal(mask, torch.arange(3) == obs[:, :1].long() % 3)
