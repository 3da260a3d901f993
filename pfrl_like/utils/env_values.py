"""Functions for environments of gymnasium, gym and PFRL: results of reset and step, seeds, spaces, action masks."""

import inspect
import numbers
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Literal

import gymnasium
import numpy as np
import torch

from pfrl_like.batch import ACTION_MASK
from pfrl_like.errors import EnvError
from pfrl_like.utils.reprs import never_raising


def is_gymnasium(env: Any) -> bool:
    """True if `env` is a `gymnasium.Env`."""
    return isinstance(env, gymnasium.Env)


def reset_values(result: Any) -> tuple[Any, dict[str, Any] | None]:
    """Split the result of `reset` into observation and info dict. The info is None if the result has no info."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result[0], result[1]
    return result, None


def first_values(result: Any) -> tuple[Any, dict[str, Any]]:
    """Split the result of gymnasium's `reset` into (obs, info).

    Raises:
        EnvError: If the result is not (obs, info) with a dict as info.
    """
    obs, info = reset_values(result)
    if info is None:
        raise EnvError(f"reset returned {type(result).__name__}, expected (obs, info) with a dict as info")
    return obs, info


_GYMNASIUM_TYPES = [bool, bool, dict]  # terminated, truncated and info of gymnasium's environments


def step_values(result: Any) -> tuple[Any, Any, bool, bool, Any]:
    """Convert the four or five values of `step` to (obs, reward, terminated, truncated, info).

    Raises:
        EnvError: If the number of values is not four or five, if info is not a dict, or if a flag is not a single bool.
    """
    if type(result) is tuple and [*map(type, result[2:])] == _GYMNASIUM_TYPES:
        return result
    if not isinstance(result, tuple | list) or len(result) not in (4, 5):
        got = f"{len(result)} values" if isinstance(result, tuple | list) else type(result).__name__
        expected = "(obs, reward, done, info) or (obs, reward, terminated, truncated, info)"
        raise EnvError(f"step returned {got}, expected {expected}")
    *first, info = result
    if not isinstance(info, Mapping):
        raise EnvError(f"step returned {type(info).__name__} as info, its last value, expected a dict")
    if len(result) == 5:
        obs, reward, terminated, truncated = first
    else:
        obs, reward, done = first
        truncated = bool(info.get("TimeLimit.truncated", False))
        terminated = _as_bool("done", done) and not truncated
    return obs, reward, _as_bool("terminated", terminated), _as_bool("truncated", truncated), info


def _as_bool(name: str, value: Any) -> bool:
    try:
        plain = value.item() if hasattr(value, "item") else value
    except (TypeError, ValueError, RuntimeError):  # for an array or tensor of several values
        plain = None
    if isinstance(plain, numbers.Real) and plain in (0, 1):
        return bool(plain)
    raise EnvError(f"step returned {value!r:.80} ({type(value).__name__}) as {name}, expected one bool")


def own_copy(value: Any) -> Any:
    """Copy the arrays of a value, because an environment may change its arrays in place. Return the new value.

    Arrays in dicts, tuples and lists are copied, too. Other objects are returned unchanged.
    """
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) in (dict, OrderedDict):
        return type(value)((key, own_copy(part)) for key, part in value.items())
    if type(value) in (tuple, list):
        return type(value)(own_copy(part) for part in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # a named tuple
        return type(value)(*map(own_copy, value))
    return value


def seed_env(env: Any, seed: int) -> bool:
    """Seed an environment with its method `seed`. Do nothing if `reset` accepts the seed.

    Args:
        env: An environment of any supported interface.
        seed: The seed.

    Returns:
        True if the environment is seeded. False if the caller must pass the seed to the next `reset`.

    Raises:
        ValueError: If neither a method `seed` nor `reset` accepts a seed.
    """
    if takes_at_reset(env, "seed"):
        return False
    if callable(getattr(env, "seed", None)):
        env.seed(seed)
        return True
    raise ValueError(f"seed is {seed}, but {env} has no method seed, and its reset has no argument seed")


def takes_at_reset(env: Any, name: str) -> bool:
    """True if `env.reset` accepts the argument `name`. Wrappers may forward the argument."""
    if is_gymnasium(env):
        return True
    base = getattr(env, "unwrapped", env)
    if name in _parameters(base.reset):
        return base is env or name in _parameters(env.reset) or _takes_any(env.reset)
    return name in _parameters(env.reset) or (_takes_any(base.reset) and not callable(getattr(env, name, None)))


def _takes_any(function: Any) -> bool:
    return any(p.kind is inspect.Parameter.VAR_KEYWORD for p in _parameters(function).values())


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # a method written in C may have no signature
        return {}


def mend_gym(env: Any) -> None:
    """If `env` contains a gym environment, add two names to NumPy 2 that gym 0.26 uses in every step.

    NumPy 2 has removed these names, and gym is no longer maintained.
    """
    gym_env: Any = getattr(sys.modules.get("gym"), "Env", ())
    for _ in range(100):  # iterate over the wrappers
        if env is None or gym_env == ():
            return
        if isinstance(env, gym_env):
            break
        env = getattr(env, "env", None)
    for name, value in (("bool8", np.bool_), ("float_", np.float64)):
        if name not in vars(np):
            setattr(np, name, value)


class Forwarding:
    """Base class of wrappers. Public attributes that a wrapper does not have are read from the wrapped object."""

    _wrapped = "env"  # name of the attribute that contains the wrapped object

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == self._wrapped:  # copy and pickle read attributes before `__init__`
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(getattr(self, self._wrapped), name)

    @never_raising
    def __str__(self) -> str:
        return f"<{type(self).__name__}{getattr(self, self._wrapped)}>"

    __repr__ = __str__


def _forwarded(name: str, default: Any) -> Any:
    """Return a property that reads an attribute of the environment, or `default` if the attribute does not exist."""
    return property(lambda self: getattr(self.user_env, name, default), doc=f"`{name}` of the user's environment.")


class EnvAdapter(Forwarding, gymnasium.Env[Any, Any]):
    """Adapter with gymnasium's interface for environments of gym, or with PFRL's interface.

    The spaces are the objects of the user's environment, so that users can seed them. They need not be gymnasium
    spaces: `space_kind` returns the kind of a space.

    Args:
        env: The user's environment.

    Attributes:
        user_env: The user's environment.
    """

    _wrapped = "user_env"
    spec = _forwarded("spec", None)
    metadata = _forwarded("metadata", {})
    render_mode = _forwarded("render_mode", None)

    def __init__(self, env: Any) -> None:
        self.user_env = env

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode.

        Raises:
            ValueError: If a seed or options are passed, but the environment does not accept them.
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
        """Execute an action and return five values.

        Raises:
            EnvError: If the environment does not return four or five values.
        """
        return step_values(self.user_env.step(action))

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the environment's `render`."""
        return self.user_env.render(*args, **kwargs)

    def close(self) -> None:
        """Close the environment if it has a method `close`."""
        close = getattr(self.user_env, "close", None)
        if callable(close):
            close()

    @property
    def unwrapped(self) -> Any:
        """The environment inside all wrappers."""
        return getattr(self.user_env, "unwrapped", self.user_env)


SpaceKind = Literal["box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", "other"]

_KIND_OF_NAME: dict[str, SpaceKind] = {
    "Box": "box", "Discrete": "discrete", "MultiDiscrete": "multi_discrete", "MultiBinary": "multi_binary",
    "Dict": "dict", "Tuple": "tuple", "OneOf": "other",
}  # fmt: skip
_KIND_OF_TYPE: dict[type, SpaceKind] = {}


def space_kind(space: Any) -> SpaceKind:
    """Return the kind of a space. The function reads the names of its classes and its attributes.

    `isinstance` does not work, because a space of gym is not an instance of gymnasium's class of the same name.

    Args:
        space: A space of gym or gymnasium, or an object with the same attributes.

    Returns:
        "box", "discrete", "multi_discrete", "multi_binary", "dict", "tuple", or "other". The kind of a mock is "other":
        all attributes exist, but they are not numbers.
    """
    kind = _KIND_OF_TYPE.get(type(space))
    if kind is None:
        kind = _KIND_OF_TYPE[type(space)] = _find_kind(space)
    return kind


def _find_kind(space: Any) -> SpaceKind:
    for base in type(space).__mro__:
        if base.__name__ in _KIND_OF_NAME:
            return _KIND_OF_NAME[base.__name__]
    parts = getattr(space, "spaces", None)
    if isinstance(parts, Mapping | tuple | list):
        return "dict" if isinstance(parts, Mapping) else "tuple"
    if _has_numbers(space, "nvec"):
        return "multi_discrete"
    if _has_numbers(space, "low", "high"):
        return "box"
    if _has_numbers(space, "n"):
        return "multi_binary" if getattr(space, "shape", ()) else "discrete"
    return "other"


def _has_numbers(space: Any, *names: str) -> bool:
    return all(np.asarray(getattr(space, name, None)).dtype.kind in "biuf" for name in names)


def box_class(space: Any) -> Any:
    """Return the class `Box` of gym if `space` is a space of gym, else the class `Box` of gymnasium."""
    is_of_gym = type(space).__module__.partition(".")[0] == "gym"
    return sys.modules["gym.spaces"].Box if is_of_gym else gymnasium.spaces.Box


def action_size_of(space: Any) -> int:
    """Return the number of actions if actions are discrete, else the length of an action vector.

    Raises:
        ValueError: If the actions are neither discrete nor vectors.
    """
    kind = space_kind(space)
    if kind == "discrete":
        return int(space.n)
    if kind != "box" or len(space.shape) != 1:
        raise ValueError(f"the action space is {space}, expected Discrete or a Box of one axis")
    return int(space.shape[0])


def numbers_of_choices(space: Any) -> list[int]:
    """Return the number of choices in each dimension of the actions: `nvec`, or 2 for each bit of MultiBinary actions.

    Raises:
        ValueError: If the actions are neither MultiDiscrete nor MultiBinary with one axis.
    """
    kind = space_kind(space)
    if kind not in ("multi_discrete", "multi_binary") or len(space.shape) != 1:
        raise ValueError(f"the action space is {space}, expected MultiDiscrete or MultiBinary of one axis")
    return [int(n) for n in space.nvec] if kind == "multi_discrete" else [2] * int(space.shape[0])


class Allowed:
    """Action mask for explorers, in the place of an `ActionValue`, if the agent has no action values.

    Args:
        action_mask: True for allowed actions, [k, n_actions].
    """

    def __init__(self, action_mask: Any) -> None:
        self.action_mask = torch.as_tensor(np.asarray(action_mask, np.bool_))

    def __getitem__(self, rows: slice) -> "Allowed":
        return Allowed(self.action_mask[rows])


def takes_mask(act: Callable[..., Any]) -> bool:
    """True if a function accepts the keyword `action_mask`. `act` of PFRL's agents, for example, does not."""
    parameters = inspect.signature(act).parameters.values()
    return any(parameter.name == ACTION_MASK or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def mask_keyword(mask: Any, takes: bool = True) -> dict[str, Any]:
    """Return the mask as a dict of keyword arguments. Empty if `mask` is None or `takes` is False."""
    return {} if mask is None or not takes else {ACTION_MASK: mask}


def required_keyword(choose: Callable[..., Any], mask: Any) -> dict[str, Any]:
    """Return the mask as a dict of keyword arguments for `choose`. Empty if `mask` is None.

    Args:
        choose: Function that selects actions.
        mask: Action mask in a shape that `choose` accepts. None if there is no mask.

    Raises:
        TypeError: If `mask` is not None and `choose` does not accept masks.
    """
    if mask is not None and not takes_mask(choose):
        name = getattr(choose, "__qualname__", type(choose).__name__)
        raise TypeError(f"{name} has no keyword action_mask, but the environment masks actions: add the keyword")
    return mask_keyword(mask)


def mask_columns(mask: Any, next_mask: Any, next_obs: Any) -> dict[str, Any]:
    """Return the action-mask columns of a step for a replay buffer.

    Args:
        mask: Mask that applied when the action was selected: for one environment, or with one row per environment. None
            if unknown.
        next_mask: Mask that applies after the step: for one environment, or with one row per environment. None if
            unknown.
        next_obs: Observation of any environment after the step. It may contain the mask.

    Returns:
        The columns "action_mask" and "next_action_mask". An unknown mask is replaced by True. The result is empty if
        both masks are unknown, or if observations contain masks.
    """
    known = [each for each in (mask, next_mask) if each is not None]
    if not known or (isinstance(next_obs, dict) and ACTION_MASK in next_obs):
        return {}
    first, second = (np.ones_like(known[0]) if each is None else each for each in (mask, next_mask))
    return {ACTION_MASK: first, f"next_{ACTION_MASK}": second}


def sample_allowed(space: Any, mask: Any) -> Any:
    """Sample an action uniformly from the actions that the mask allows, with the space's random stream."""
    allowed = None if mask is None else np.asarray(mask, np.int8)
    return space.sample() if allowed is None or not allowed.any() else space.sample(mask=allowed)
