"""Time limit that sets `info["needs_reset"]` in place of the flags of `step`."""

from collections.abc import Mapping
from typing import Any

from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.wrappers.wrapper import Wrapper


class ContinuingTimeLimit(Wrapper):
    """Set `info["needs_reset"]` when an episode reaches the time limit, without changing the flags.

    Runners treat `needs_reset` as a truncation: they reset the environment, and the agent bootstraps from the last
    state. A user-defined training loop must check `info["needs_reset"]`. Unlike this wrapper,
    `gymnasium.wrappers.TimeLimit` sets `truncated`.

    Args:
        env: Environment to wrap.
        max_episode_steps: Number of steps after which the environment needs a reset.

    Raises:
        ValueError: If `max_episode_steps` is below 1.
    """

    @takes_integral_floats
    def __init__(self, env: Any, max_episode_steps: int) -> None:
        super().__init__(env)
        check_counts(max_episode_steps=max_episode_steps)
        self._max_episode_steps, self._elapsed_steps = max_episode_steps, 0

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        self._elapsed_steps = 0
        return self.env.reset(**kwargs)

    def saved_state(self) -> dict[str, Any]:
        """Return the number of steps in the current episode."""
        return {"steps": self._elapsed_steps}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self._elapsed_steps = int(state["steps"])

    def step(self, action: Any) -> Any:
        """Execute an action, and set `info["needs_reset"]` at the time limit."""
        *values, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._elapsed_steps >= self._max_episode_steps:
            info = {**info, "needs_reset": True}
        return (*values, info)
