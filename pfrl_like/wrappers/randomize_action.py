"""Wrapper that makes a deterministic environment stochastic."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pfrl_like.random_streams.streams import get_rng_state, legacy_rng, plain_state
from pfrl_like.utils.checks import check_numbers
from pfrl_like.utils.env_values import space_kind
from pfrl_like.wrappers.wrapper import Wrapper


class RandomizeAction(Wrapper):
    """Replace a fraction of the actions by uniformly random actions.

    The wrapper makes the environment stochastic, as in some evaluations on Atari games. For exploration, use an
    explorer instead. The wrapper uses the global NumPy stream, or its own stream after it was seeded.

    Args:
        env: Environment with a Discrete action space.
        random_fraction: Fraction of the actions to replace, in [0, 1].

    Raises:
        ValueError: If `random_fraction` is out of range, or if the action space is not Discrete.
    """

    def __init__(self, env: Any, random_fraction: float) -> None:
        super().__init__(env)
        check_numbers(0, 1, random_fraction=random_fraction)
        if space_kind(env.action_space) != "discrete":
            raise ValueError(f"env has the action space {env.action_space}, expected a Discrete space")
        self._random_fraction = random_fraction
        self._rng: np.random.RandomState | None = None

    def action(self, action: Any) -> Any:
        """Return the action, or a random action."""
        rng: Any = np.random if self._rng is None else self._rng
        if rng.rand() < self._random_fraction:
            return rng.randint(self.env.action_space.n) + getattr(self.env.action_space, "start", 0)
        return action

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. The argument `seed` seeds this wrapper, too."""
        if kwargs.get("seed") is not None:
            self._rng = np.random.RandomState(kwargs["seed"] % 2**32)
        return super().reset(**kwargs)

    def saved_state(self) -> dict[str, Any]:
        """Return the state of the wrapper's own stream. The state is None if the wrapper has not been seeded."""
        return {"rng": plain_state(get_rng_state(self._rng))}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `saved_state`."""
        self._rng = legacy_rng(state["rng"])

    def seed(self, seed: int) -> Any:
        """Seed this wrapper. If the environment has a method `seed`, call it and return its result."""
        self._rng = np.random.RandomState(seed)
        inner = getattr(self.env, "seed", None)
        return inner(seed) if callable(inner) else None
