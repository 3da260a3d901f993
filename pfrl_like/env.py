"""The border to environments: one interface inside the library, whichever library or user wrote the environment."""

from abc import ABC, abstractmethod
from typing import Any

from pfrl_like.utils.env_values import is_gymnasium as is_gymnasium
from pfrl_like.utils.env_values import mend_gym as mend_gym
from pfrl_like.utils.env_values import reset_values as reset_values
from pfrl_like.utils.env_values import seed_env as seed_env
from pfrl_like.utils.env_values import step_values as step_values
from pfrl_like.utils.reprs import never_raising, shown


class Env(ABC):
    """A minimal environment: `reset() -> obs`, `step(action) -> (obs, reward, done, info)`, `close()`.

    Environments of gymnasium and gym, and any object with the same methods, do as well; nothing needs to inherit
    from this class.
    """

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Act; return (obs, reward, done, info) or (obs, reward, terminated, truncated, info)."""

    @abstractmethod
    def reset(self) -> Any:
        """Start an episode; return its first observation, or that and a dict of information."""

    @abstractmethod
    def close(self) -> None:
        """Free what the environment holds."""


class VectorEnv(ABC):
    """Several environments that are stepped together and reset when the caller says so."""

    num_envs: int

    @never_raising
    def __repr__(self) -> str:
        obs, action = (shown(getattr(self, name, None)) for name in ("observation_space", "action_space"))
        return f"<{type(self).__name__} of {self.num_envs} environments, observations {obs}, actions {action}>"

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Act in every environment.

        Args:
            action: One action for each environment, length `num_envs`.

        Returns:
            Sequences of length `num_envs`: (obs, rewards, dones, infos), or (obs, rewards, terminateds, truncateds,
            infos) if the environments return five values. Ended environments are not reset.
        """

    @abstractmethod
    def reset(self, mask: Any = None) -> Any:
        """Start new episodes.

        Args:
            mask: Which environments to leave alone, bool [num_envs]; None resets all.

        Returns:
            A sequence of `num_envs` observations (the last one where nothing was reset), and a sequence of dicts if
            the environments return one at a reset.
        """

    @abstractmethod
    def seed(self, seeds: Any) -> Any:
        """Seed each environment with an integer of its own."""

    @abstractmethod
    def close(self) -> None:
        """Close every environment."""

    @property
    def unwrapped(self) -> "VectorEnv":
        """The vector environment below all wrappers."""
        return self


def as_gymnasium(env: Any) -> Any:
    """Give an environment gymnasium's interface: `reset(seed, options)` and a `step` of five values.

    Args:
        env: An environment of gymnasium (returned as it is) or gym, or any object with `reset()` and `step(action)`.
            With a step of four values, `info["TimeLimit.truncated"]` becomes `truncated`.

    Returns:
        The environment, or an adapter around it: `user_env` is the original, whose spaces and other attributes show
        through unchanged.

    Raises:
        TypeError: If it is no environment, or one made of several.
    """
    if is_gymnasium(env):
        return env
    if isinstance(env, type) or not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        hint = (
            "the class instead of an instance of it" if isinstance(env, type) else f"{env!r:.80} ({type(env).__name__})"
        )
        raise TypeError(f"env is {hint}, expected an environment: an object with the methods reset and step")
    if isinstance(getattr(env, "num_envs", None), int):
        raise TypeError(
            f"env is a vector environment ({type(env).__name__}), expected a single one; "
            "vector environments train with train_agent_batch"
        )
    mend_gym(env)
    from pfrl_like.utils.env_values import EnvAdapter  # brings gymnasium, which a gymnasium env has brought already

    return EnvAdapter(env)
