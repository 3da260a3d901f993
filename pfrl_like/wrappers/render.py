"""Wrapper that renders an environment while it runs."""

from typing import Any

from pfrl_like.wrappers.wrapper import Wrapper

_NO_MODE = object()  # gym before 0.26 has no `render_mode`


class Render(Wrapper):
    """Call the environment's `render` after every reset and step.

    Args:
        env: Environment to wrap. An environment of gymnasium or gym 0.26 must be made with a `render_mode`.
        **kwargs: Arguments of `render`. If the environment has a `render_mode`, `mode` must be equal to it and is not
            passed on, because `render` of gymnasium has no arguments.

    Raises:
        ValueError: If the environment has a `render_mode` and it is None or differs from `mode`.
    """

    def __init__(self, env: Any, **kwargs: Any) -> None:
        super().__init__(env)
        render_mode = getattr(env, "render_mode", _NO_MODE)
        if render_mode is None:
            raise ValueError(f'env has render_mode None and cannot render: make it with render_mode="human" ({env})')
        if render_mode is not _NO_MODE and (mode := kwargs.pop("mode", render_mode)) != render_mode:
            raise ValueError(f"mode is {mode!r}, expected {render_mode!r}, the render_mode of env ({env})")
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
