"""Interfaces of environments, and the conversion of other environments to the Gymnasium interface."""

from abc import ABC, abstractmethod
from typing import Any

from pfrl_like.utils.env_values import EnvAdapter
from pfrl_like.utils.env_values import is_gymnasium as is_gymnasium
from pfrl_like.utils.env_values import mend_gym as mend_gym
from pfrl_like.utils.env_values import reset_values as reset_values
from pfrl_like.utils.env_values import seed_env as seed_env
from pfrl_like.utils.env_values import step_values as step_values
from pfrl_like.utils.reprs import never_raising, shown


class Env(ABC):
    """Minimal interface of an environment: `reset`, `step` and `close`.

    An environment need not inherit from this class: the library also accepts environments of Gymnasium and gym, and
    other objects with these methods.
    """

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Make one step; return (obs, reward, done, info) or (obs, reward, terminated, truncated, info)."""

    @abstractmethod
    def reset(self) -> Any:
        """Start an episode; return the first observation, or (obs, info)."""

    @abstractmethod
    def close(self) -> None:
        """Free the resources of the environment."""


class VectorEnv(ABC):
    """Interface of a vector environment: several environments that are stepped together and reset by the caller."""

    num_envs: int

    @never_raising
    def __repr__(self) -> str:
        obs, action = (shown(getattr(self, name, None)) for name in ("observation_space", "action_space"))
        return f"<{type(self).__name__} of {self.num_envs} environments, observations {obs}, actions {action}>"

    @abstractmethod
    def step(self, action: Any) -> Any:
        """Make one step in every environment.

        Args:
            action: One action for each environment; the length is `num_envs`.

        Returns:
            (obs, rewards, dones, infos), or (obs, rewards, terminateds, truncateds, infos) if the environments return
            five values. Each element is a sequence of length `num_envs`. `step` does not reset an environment whose
            episode has ended.
        """

    @abstractmethod
    def reset(self, mask: Any = None) -> Any:
        """Start new episodes.

        Args:
            mask: True for environments that keep their episode, bool [num_envs]. If None, all environments are reset.

        Returns:
            A sequence of `num_envs` observations. If `reset` of the single environments returns (obs, info), the result
            is a pair of this sequence and a sequence of `num_envs` info dicts. For an environment that is not reset,
            the observation is its latest observation.
        """

    @abstractmethod
    def seed(self, seeds: Any) -> Any:
        """Seed each environment with the integer at its index."""

    @abstractmethod
    def close(self) -> None:
        """Close every environment."""

    @property
    def unwrapped(self) -> "VectorEnv":
        """The vector environment below all wrappers."""
        return self


def as_gymnasium(env: Any) -> Any:
    """Return an environment with Gymnasium's interface, or an adapter that gives another environment this interface.

    Args:
        env: Gymnasium environment, which is returned unchanged; gym environment; or an object with `reset()` and
            `step(action)`. If `step` returns four values, the adapter's `truncated` is `info["TimeLimit.truncated"]`.

    Returns:
        The environment, or an adapter with `reset(seed, options)` and `step` with five results. The attribute
        `user_env` of the adapter is the original environment. The adapter also has the spaces and all other attributes
        of the original environment.

    Raises:
        TypeError: If `env` is not an environment, or if it is a vector environment.
    """
    if is_gymnasium(env):
        return env
    if isinstance(env, type) or not (callable(getattr(env, "reset", None)) and callable(getattr(env, "step", None))):
        hint = "a class instead of an instance" if isinstance(env, type) else f"{env!r:.80} ({type(env).__name__})"
        raise TypeError(f"env is {hint}, expected an environment: an object with the methods reset and step")
    if isinstance(getattr(env, "num_envs", None), int):
        expected = "a single environment: use train_agent_batch for vector environments"
        raise TypeError(f"env is a vector environment ({type(env).__name__}), expected {expected}")
    mend_gym(env)
    return EnvAdapter(env)
