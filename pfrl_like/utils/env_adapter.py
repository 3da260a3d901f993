"""`EnvAdapter`: an environment of another form, seen as a gymnasium environment."""

from typing import Any

import gymnasium

from pfrl_like.utils.env_values import reset_values, seed_env, step_values, takes_at_reset


class EnvAdapter(gymnasium.Env[Any, Any]):
    """Gymnasium's interface around an environment of gym or of PFRL's form; made by `as_gymnasium`.

    The spaces are the environment's own objects, not converted: their random streams stay those the user seeds, and
    the library tells kinds of spaces by `utils.spaces.space_kind`.

    Args:
        env: The user's environment.

    Attributes:
        user_env: The same object.
    """

    def __init__(self, env: Any) -> None:
        self.user_env = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            ValueError: If a seed or options are given and the environment has no way to take them.
        """
        arguments: dict[str, Any] = {}
        if seed is not None and not seed_env(self.user_env, seed):
            arguments["seed"] = seed
        if options is not None:
            if not takes_at_reset(self.user_env, "options"):
                raise ValueError(f"options is {options!r}, but the reset of {self.user_env} takes no options")
            arguments["options"] = options
        obs, info = reset_values(self.user_env.reset(**arguments))
        return obs, {} if info is None else info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Act; four values become five.

        Raises:
            EnvError: If the environment returns neither four nor five values.
        """
        return step_values(self.user_env.step(action))

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """What the environment's own `render` returns."""
        return self.user_env.render(*args, **kwargs)

    def close(self) -> None:
        """Close the environment, if it can be closed."""
        close = getattr(self.user_env, "close", None)
        if callable(close):
            close()

    @property
    def unwrapped(self) -> Any:
        """The environment below all wrappers."""
        return getattr(self.user_env, "unwrapped", self.user_env)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The environment's own `spec`, None if it has none."""
        return getattr(self.user_env, "spec", None)

    @property
    def metadata(self) -> Any:  # type: ignore[override]
        """The environment's own `metadata`, empty if it has none."""
        return getattr(self.user_env, "metadata", {})

    @property
    def render_mode(self) -> Any:  # type: ignore[override]
        """The environment's own `render_mode`, None if it has none."""
        return getattr(self.user_env, "render_mode", None)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "user_env":  # copy and pickle ask before there is a user_env
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.user_env, name)

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self.user_env}>"

    __repr__ = __str__
