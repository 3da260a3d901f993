"""The forms in which environments give and take values, told apart in one place."""

import inspect
import numbers
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from pfrl_like.errors import EnvError


def is_gymnasium(env: Any) -> bool:
    """Whether this is a `gymnasium.Env`; gymnasium is not imported to find out."""
    gymnasium = sys.modules.get("gymnasium")
    return isinstance(env, getattr(gymnasium, "Env", ()))


def reset_values(result: Any) -> tuple[Any, dict[str, Any] | None]:
    """Split what `reset` returned into the observation and the dict of information, None if there is none."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], result[1]
    return result, None


def first_values(result: Any) -> tuple[Any, dict[str, Any]]:
    """Split what gymnasium's `reset` returned.

    Raises:
        EnvError: If it is not (obs, info) with a dict as info.
    """
    obs, info = reset_values(result)
    if info is None:
        raise EnvError(f"reset returned a {type(result).__name__}, expected (obs, info) with a dict as info")
    return obs, info


def step_values(result: Any) -> tuple[Any, Any, bool, bool, Any]:
    """Turn what `step` returned, four values or five, into (obs, reward, terminated, truncated, info).

    Raises:
        EnvError: If it is neither, info is no dict, or a flag no single truth value.
    """
    if not isinstance(result, tuple | list) or len(result) not in (4, 5):
        came = f"{len(result)} values" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
        raise EnvError(
            f"step returned {came}, expected (obs, reward, done, info) or (obs, reward, terminated, truncated, info)"
        )
    *first, info = result
    if not isinstance(info, Mapping):
        raise EnvError(f"step returned a {type(info).__name__} as info, its last value, expected a dict")
    if len(result) == 5:
        obs, reward, terminated, truncated = first
    else:
        obs, reward, done = first
        truncated = bool(info.get("TimeLimit.truncated", False))
        terminated = _as_bool("done", done) and not truncated
    return obs, reward, _as_bool("terminated", terminated), _as_bool("truncated", truncated), info


def _as_bool(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    try:
        plain = value.item() if hasattr(value, "item") else value
    except (TypeError, ValueError, RuntimeError):  # an array of several, a tensor of several
        plain = None
    if isinstance(plain, numbers.Real) and plain in (0, 1):
        return bool(plain)
    raise EnvError(f"step returned {value!r:.80} ({type(value).__name__}) as {name}, expected one truth value")


def own_copy(value: Any) -> Any:
    """A value that stays as it is when an environment changes its arrays in place.

    Arrays are copied, in dicts, tuples and lists too; other objects are returned as they are.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (dict, OrderedDict):
        return type(value)((key, own_copy(part)) for key, part in value.items())
    if type(value) in (tuple, list):
        return type(value)(own_copy(part) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named one
        return type(value)(*map(own_copy, value))
    return value


def seed_env(env: Any, seed: int) -> bool:
    """Seed an environment in the way it takes seeds.

    Args:
        env: An environment of any of the accepted kinds.
        seed: The seed.

    Returns:
        True if it is done (`env.seed(seed)`), False if the seed has to go into the next `env.reset(seed=seed)`.

    Raises:
        ValueError: If the environment takes no seed.
    """
    if takes_at_reset(env, "seed"):
        return False
    if callable(getattr(env, "seed", None)):
        env.seed(seed)
        return True
    raise ValueError(f"seed is {seed}, but {env} takes none: it has no seed method, and its reset has no argument seed")


def takes_at_reset(env: Any, name: str) -> bool:
    """Whether `env.reset` takes an argument, looking through wrappers that hand every argument on."""
    if is_gymnasium(env):
        return True
    base = getattr(env, "unwrapped", env)
    if _has_parameter(base.reset, name):
        return base is env or _has_parameter(env.reset, name) or _takes_any(env.reset)
    return _has_parameter(env.reset, name) or (_takes_any(base.reset) and not callable(getattr(env, name, None)))


def _has_parameter(function: Any, name: str) -> bool:
    return name in _parameters(function)


def _takes_any(function: Any) -> bool:
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _parameters(function).values())


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a method written in C may not tell
        return {}


def mend_gym(env: Any) -> None:
    """Give NumPy 2 back two names that gym 0.26 looks up at every step, if there is a gym environment in `env`.

    gym is dead and will not learn them; nothing happens unless such an environment arrives.
    """
    gym_env: Any = getattr(sys.modules.get("gym"), "Env", ())
    for _ in range(100):  # layers of wrappers
        if env is None or gym_env == ():
            return
        if isinstance(env, gym_env):
            break
        env = getattr(env, "env", None)
    for name, value in (("bool8", np.bool_), ("float_", np.float64)):
        if name not in vars(np):
            setattr(np, name, value)


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
