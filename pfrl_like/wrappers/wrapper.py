"""`Wrapper`: base class of wrappers of single environments."""

import functools
import inspect
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.env import is_gymnasium, mend_gym, reset_values
from pfrl_like.errors import EnvError
from pfrl_like.utils.env_values import Forwarding


class Wrapper(Forwarding):
    """Base class of wrappers: override `observation`, `reward` or `action`, or override `reset` and `step`.

    `step` returns four or five values, like the wrapped environment. `reset` returns an observation or (observation,
    info), like the wrapped environment. If the environment is a gymnasium environment, the instance is also a
    `gymnasium.Wrapper`. Other public attributes are the attributes of the environment.

    Args:
        env: An environment of gymnasium or gym, or any object with `reset` and `step`.

    Attributes:
        env: The wrapped environment.
    """

    def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> "Wrapper":
        """If `env` is a gymnasium environment, return an instance that is also a `gymnasium.Wrapper`."""
        if not is_gymnasium(env):
            return object.__new__(cls)
        self: Wrapper = _new(cls)
        _record_arguments(self, inspect.signature(cls.__init__).bind(self, env, *args, **kwargs))
        return self

    def __init__(self, env: Any) -> None:
        if isinstance(env, type) or not callable(getattr(env, "step", None)):
            raise TypeError(f"env is {env!r}, expected an environment: an object with the methods reset and step")
        mend_gym(env)
        if is_gymnasium(self):
            gymnasium.Wrapper.__init__(self, env)  # type: ignore[arg-type]
        else:
            self.env = env

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode. Keyword arguments are passed to the environment."""
        result = self.env.reset(**kwargs)
        obs, info = reset_values(result)
        return self.observation(obs) if info is None else (self.observation(obs), info)

    def step(self, action: Any) -> Any:
        """Execute an action and return four or five values, like the environment.

        Raises:
            EnvError: If the environment does not return four or five values.
        """
        result = self.env.step(self.action(action))
        if len(result) not in (4, 5):
            raise EnvError(f"step returned {len(result)} values, expected 4 or 5")
        obs, reward, *rest = result
        return (self.observation(obs), self.reward(reward), *rest)

    def observation(self, observation: Any) -> Any:
        """Convert an observation of the environment to the observation for the caller."""
        return observation

    def reward(self, reward: Any) -> Any:
        """Convert a reward of the environment to the reward for the caller."""
        return reward

    def action(self, action: Any) -> Any:
        """Convert an action of the caller to the action for the environment."""
        return action

    @property
    def unwrapped(self) -> Any:
        """The environment inside all wrappers."""
        return getattr(self.env, "unwrapped", self.env)


def has_ended(result: Any) -> bool:
    """True if a step ends the episode by a flag or by `info["needs_reset"]`. `result` is the result of `step`."""
    return any(result[2:-1]) or bool(result[-1].get("needs_reset", False))


def reset_result(step: Any) -> Any:
    """Convert the result of `step` to a result of `reset` with the same observation and info."""
    return (step[0], step[-1]) if len(step) == 5 else step[0]


def random_stream(env: Any) -> Any:
    """Return the environment's random stream `np_random`, or the global NumPy stream if the environment has none."""
    return getattr(getattr(env, "unwrapped", env), "np_random", None) or np.random


def _new(cls: Any) -> Any:
    """Return a new object of a subclass of `cls` and `gymnasium.Wrapper`, without calling `__init__`."""
    return object.__new__(_gymnasium_class(cls))


def _record_arguments(self: Any, call: inspect.BoundArguments) -> None:
    """Store the wrapper's arguments for `env.spec`, so that `gymnasium.make(env.spec)` can make the wrapper again."""
    saved = dict(call.arguments)
    for name, parameter in call.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            saved |= saved.pop(name, {})
    _, _, *names = saved  # the first two arguments are self and env
    self._saved_kwargs = {name: saved[name] for name in names}


@functools.cache
def _gymnasium_class(cls: Any) -> Any:
    def reduce(self: Wrapper) -> Any:  # pickle cannot import the class by its name
        return _new, (cls,), self.__dict__

    attributes = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    bases = (cls, gymnasium.utils.RecordConstructorArgs, gymnasium.Wrapper)
    return type(cls.__name__, bases, {**attributes, "__reduce__": reduce})
