"""A time limit that tells, but does not end the episode itself."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.wrappers.wrapper import Wrapper


class ContinuingTimeLimit(Wrapper):
    """Set `info["needs_reset"]` when an episode has had its time; the flags stay as they are.

    Runners take it as a truncation: they reset the environment, and the agent goes on expecting rewards. Who steps the
    environment by hand has to look for it. `gymnasium.wrappers.TimeLimit` sets `truncated` instead.

    Args:
        env: Environment to wrap.
        max_episode_steps: Steps after which it needs a reset.

    Raises:
        ValueError: If the number is less than 1.
    """

    def __init__(self, env: Any, max_episode_steps: int) -> None:
        super().__init__(env)
        check_counts(max_episode_steps=max_episode_steps)
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps = 0

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode; keyword arguments go to the environment."""
        self._elapsed_steps = 0
        return self.env.reset(**kwargs)

    def saved_state(self) -> dict[str, Any]:
        """The steps of the episode so far."""
        return {"steps": self._elapsed_steps}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Take up what `saved_state` gave."""
        self._elapsed_steps = int(state["steps"])

    def step(self, action: Any) -> Any:
        """Act."""
        *values, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._elapsed_steps >= self._max_episode_steps:
            info = {**info, "needs_reset": True}
        return (*values, info)
