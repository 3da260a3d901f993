"""Wrapper that renders an environment while it runs."""

from typing import Any

from pfrl_like.wrappers.wrapper import Wrapper


class Render(Wrapper):
    """Call the environment's `render` after every reset and step.

    Args:
        env: Environment to wrap. An environment of gymnasium or gym 0.26 must be made with a `render_mode`.
        **kwargs: Arguments of `render`.

    Raises:
        ValueError: If the environment has a `render_mode` and it is None.
    """

    def __init__(self, env: Any, **kwargs: Any) -> None:
        super().__init__(env)
        if getattr(env, "render_mode", "unknown") is None:
            raise ValueError(f'env has render_mode None and cannot render: make it with render_mode="human" ({env})')
        self._kwargs = kwargs

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and render. Keyword arguments are passed to the environment's `reset`."""
        result = self.env.reset(**kwargs)
        self.env.render(**self._kwargs)
        return result

    def step(self, action: Any) -> Any:
        """Execute an action and render."""
        result = self.env.step(action)
        self.env.render(**self._kwargs)
        return result
