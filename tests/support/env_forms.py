"""Environments of gymnasium's form in that of PFRL."""

from typing import Any


class InPfrlForm:
    """Four values a step, of which the third says that the episode is over, and information why; no class of gymnasium.

    Args:
        env: The environment, which has whatever else is asked for.
    """

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        if name == "env":  # of a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.env, name)

    def reset(self) -> Any:
        return self.env.reset()[0]

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated or truncated, {**info, "TimeLimit.truncated": truncated and not terminated}
