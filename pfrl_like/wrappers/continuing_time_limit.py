"""Time limit that requests a reset without ending the episode."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.utils.checks import check_counts
from pfrl_like.wrappers.wrapper import Wrapper


class ContinuingTimeLimit(Wrapper):
    """Set `info["needs_reset"]` when an episode reaches the time limit; the flags are not changed.

    Runners treat it as a truncation: they reset the environment, and the agent bootstraps from the last state. Code
    that steps the environment itself has to check it. `gymnasium.wrappers.TimeLimit` sets `truncated` instead.

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
        """Steps of the episode so far."""
        return {"steps": self._elapsed_steps}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `saved_state`."""
        self._elapsed_steps = int(state["steps"])

    def step(self, action: Any) -> Any:
        """Act; sets `info["needs_reset"]` at the time limit."""
        *values, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._elapsed_steps >= self._max_episode_steps:
            info = {**info, "needs_reset": True}
        return (*values, info)
