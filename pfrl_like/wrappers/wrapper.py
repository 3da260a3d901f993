"""`Wrapper`: base of the wrappers, which change values but not the form of the environment's results."""

import functools
import inspect
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.env import is_gymnasium, mend_gym, reset_values
from pfrl_like.errors import EnvError
from pfrl_like.utils.env_values import Forwarding


class Wrapper(Forwarding):
    """Base of the wrappers: override `observation`, `reward` or `action`, or `reset` and `step` themselves.

    `step` returns four or five values and `reset` an observation or a pair, like the wrapped environment. Around a
    gymnasium environment an instance is also a `gymnasium.Wrapper`. Other public attributes are those of the
    environment.

    Args:
        env: An environment of gymnasium or gym, or any object with `reset` and `step`.

    Attributes:
        env: The same object.
    """

    def __new__(cls, env: Any = None, *args: Any, **kwargs: Any) -> "Wrapper":
        """Choose the class by the environment."""
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
        """Start an episode; keyword arguments go to the environment."""
        result = self.env.reset(**kwargs)
        obs, info = reset_values(result)
        return self.observation(obs) if info is None else (self.observation(obs), info)

    def step(self, action: Any) -> Any:
        """Act; returns four or five values, like the environment.

        Raises:
            EnvError: If the environment returns another number of values.
        """
        result = self.env.step(self.action(action))
        if len(result) not in (4, 5):
            raise EnvError(f"step returned {len(result)} values, expected 4 or 5")
        obs, reward, *rest = result
        return (self.observation(obs), self.reward(reward), *rest)

    def observation(self, observation: Any) -> Any:
        """Observation that the caller gets for an observation of the environment."""
        return observation

    def reward(self, reward: Any) -> Any:
        """Reward that the caller gets for a reward of the environment."""
        return reward

    def action(self, action: Any) -> Any:
        """Action that the environment gets for an action of the caller."""
        return action

    @property
    def unwrapped(self) -> Any:
        """The environment below all wrappers."""
        return getattr(self.env, "unwrapped", self.env)


def has_ended(result: Any) -> bool:
    """True if a step's result, of four values or five, ends the episode: by a flag or by `info["needs_reset"]`."""
    return any(result[2:-1]) or bool(result[-1].get("needs_reset", False))


def reset_result(step: Any) -> Any:
    """Observation of a step in the form of the environment's `reset`, as the first one of an episode."""
    return (step[0], step[-1]) if len(step) == 5 else step[0]


def random_stream(env: Any) -> Any:
    """Environment's own random stream `np_random`; the global NumPy stream if it has none."""
    return getattr(getattr(env, "unwrapped", env), "np_random", None) or np.random


def _new(cls: Any) -> Any:
    """New object of the same class as a `gymnasium.Wrapper`, before its `__init__`."""
    return object.__new__(_gymnasium_class(cls))


def _record_arguments(self: Any, call: inspect.BoundArguments) -> None:
    """Store the wrapper's arguments for `env.spec`, so that `gymnasium.make(env.spec)` makes it again."""
    saved = dict(call.arguments)
    for name, parameter in call.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            saved |= saved.pop(name, {})
    _, _, *names = saved  # self and env
    self._saved_kwargs = {name: saved[name] for name in names}


@functools.cache
def _gymnasium_class(cls: Any) -> Any:
    def reduce(self: Wrapper) -> Any:  # pickle cannot find the class by its name
        return _new, (cls,), self.__dict__

    attributes = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    bases = (cls, gymnasium.utils.RecordConstructorArgs, gymnasium.Wrapper)
    return type(cls.__name__, bases, {**attributes, "__reduce__": reduce})
