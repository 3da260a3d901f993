"""The environment of `make`: how it is made, its spaces, and the wrappers that it gets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from pfrl_like.envs.env_states import is_vector
from pfrl_like.envs.make_env import make_env
from pfrl_like.utils.env_values import space_kind
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Call, Given, Name, evaluate, parts
from pfrl_like.zoo.networks import says_channels_last
from pfrl_like.zoo.presets import is_atari


def base_of(env: Any, given: dict[str, Any]) -> tuple[Call | None, Any, str]:
    """Return the call that makes an environment, an environment, and its name.

    Args:
        env: Id of an environment, an environment, or a function (or class) that makes one without arguments.
        given: The caller's objects. The function adds the environment, or the function that makes it.

    Returns:
        The call, or None if `env` is an environment; the environment that was made, or `env`; its id or class.

    Raises:
        ValueError: If the environment is a vector environment, has no spaces, or is an Atari game by its id.
        TypeError: If `env` is none of these.
    """
    base: Call | None = None
    if isinstance(env, EnvSpec):
        raise TypeError(
            f"env is the EnvSpec of {env.id}, expected an id or a function: pass lambda: gymnasium.make(spec)"
        )
    if isinstance(env, str):
        if is_atari(env):
            raise ValueError(
                f"env is {env!r}, but `make` does not compose the wrappers of Atari games: see examples/atari, or pass "
                "a function that makes the game with wrappers.atari_wrappers"
            )
        base, made = parts.envs.make_env(env), make_env(env)
    elif callable(env) and (isinstance(env, type) or not hasattr(env, "step")):
        base, given["env_fn"] = Given("env_fn")(), env
        made = env()
    else:
        made = given["env"] = env
    if not (hasattr(made, "reset") and hasattr(made, "step")):
        raise TypeError(f"env is {env!r:.80}, expected an id, an environment, or a function that makes an environment")
    if is_vector(made):
        raise ValueError(
            f"env is a vector of {made.num_envs} environments, expected a single one: pass an id, or a function that "
            f"makes one environment, and n_envs={made.num_envs}"
        )
    for name in ("observation_space", "action_space"):
        if getattr(made, name, None) is None:
            raise ValueError(f"env ({type(made).__name__}) has no {name}, from which an agent is composed")
    spec = getattr(made, "spec", None)
    return base, made, env if isinstance(env, str) else getattr(spec, "id", None) or type(made).__name__


def wrappers_of(env: Any, training: Mapping[str, Any]) -> tuple[list[Call], Spaces, list[str]]:
    """Return the wrappers of an environment, the spaces of the wrapped environment, and notes about both."""
    wrappers, notes = [], []
    if training["float32_observations"] and _has_float64(env.observation_space):
        wrappers.append(parts.wrappers.CastObservationToFloat32(Given("env")))
        notes.append("Observations of float64 are cast to float32.")
    if says_channels_last(env.observation_space):
        notes.append("Images have their channels last: the first layer turns them to the front.")
    if training["rescale_actions"] and _needs_rescaling(env.action_space):
        wrappers.append(parts.wrappers.NormalizeActionSpace(Given("env")))
        notes.append(f"Actions of the agent are in [-1, 1]. The environment's are in {_bounds(env.action_space)}.")
    for wrapper in wrappers:
        env = evaluate(wrapper, {"env": env})
    return wrappers, Spaces(env.observation_space, env.action_space), notes


def with_time_limit(base_env: Call | None, limit: int | None) -> Call | None:
    """Return the call that makes an environment, with a time limit unless it is None.

    Raises:
        ValueError: If the environment is not made from an id.
    """
    if limit is None:
        return base_env
    if base_env is None or not isinstance(base_env._function, Name):
        raise ValueError(f"max_episode_steps is {limit}, expected None, because only environments with an id have one")
    return Call(base_env._function, base_env._args, {"max_episode_steps": limit})


def _has_float64(space: Any) -> bool:
    if space_kind(space) == "dict":
        return any(map(_has_float64, space.spaces.values()))
    return space_kind(space) == "box" and space.dtype == np.float64


def _needs_rescaling(space: Any) -> bool:
    if space_kind(space) != "box" or not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return False
    return not (bool((space.low == -1).all()) and bool((space.high == 1).all()))


def _bounds(space: Any) -> str:
    low, high = {*space.low.ravel().tolist()}, {*space.high.ravel().tolist()}
    return f"[{low.pop():g}, {high.pop():g}]" if len(low) == len(high) == 1 else "their bounds"
