"""The environment of `make`: how it is made, its spaces, and the wrappers that it gets."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.envs.registration import EnvSpec

from pfrl_like.envs.env_states import is_vector
from pfrl_like.envs.make_env import make_env
from pfrl_like.utils.env_values import space_kind
from pfrl_like.zoo.builder import Spaces
from pfrl_like.zoo.composition import Call, Given, Name, evaluate, names_of, parts
from pfrl_like.zoo.networks import says_channels_last
from pfrl_like.zoo.presets import is_atari

#: Settings of training that only games of Atari have.
_OF_GAMES = ("frame_stack", "episode_life", "clip_rewards")
#: Frames of a game for which an action is repeated.
_FRAME_SKIP = 4
#: Largest time limit, in steps, and in frames of a game: the largest integer of the games' emulator.
MAX_LIMIT = 2**31 - 1


def base_of(env: Any, given: dict[str, Any]) -> tuple[Call | None, Any, str]:
    """Return the call that makes an environment, an environment, and its name.

    Args:
        env: Id of an environment, an environment, or a function (or class) that makes one without arguments.
        given: The caller's objects. The function adds the environment, or the function that makes it.

    Returns:
        The call, or None if `env` is an environment; the environment that was made, or `env`; its id or class.

    Raises:
        ValueError: If the environment is a vector environment, or has no spaces.
        TypeError: If `env` is none of these.
    """
    base: Call | None = None
    if isinstance(env, EnvSpec):
        raise TypeError(
            f"env is the EnvSpec of {env.id}, expected an id or a function: pass lambda: gymnasium.make(spec)"
        )
    if isinstance(env, str):
        made = make_env(env)  # without the package of the games, the error names the extra
        base = parts.atari_wrappers.make_atari(env) if is_atari(env) else parts.envs.make_env(env)
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


def wrappers_of(
    base_env: Call | None, env: Any, training: Mapping[str, Any], usual: Mapping[str, Any]
) -> tuple[list[Call], Spaces, list[str]]:
    """Return the wrappers that an environment has in training and in evaluations.

    Args:
        base_env: Call that makes an environment. None if the caller passes an environment.
        env: An environment.
        training: All settings of training.
        usual: The same settings without those of the caller.

    Returns:
        The wrappers, the spaces of the wrapped environment, and notes about both.

    Raises:
        ValueError: If the caller passes a setting of Atari games for another environment, or features that the
            environment does not have.
        TypeError: If `select_features` contains an unknown argument of `SelectFeatures`, or a value of a wrong type.
    """
    wrappers, notes = [], []
    if _is_game(base_env):
        wrappers.append(parts.atari_wrappers.WarpFrame(Given("env"), channel_order="chw"))
        if (n_frames := training["frame_stack"]) > 1:
            wrappers.append(parts.atari_wrappers.FrameStack(Given("env"), n_frames, channel_order="chw"))
    elif changed := [name for name in _OF_GAMES if training[name] != usual[name]]:
        raise ValueError(
            f"{changed[0]} is {training[changed[0]]!r}, but env is no id of an Atari game, such as 'ALE/Pong-v5': "
            "leave it out, and wrap the environment in a function that makes it"
        )
    if training["select_features"] is not None:
        wrappers.append(_selection(env, training["select_features"]))
    if training["float32_observations"] and _has_float64(env.observation_space):
        wrappers.append(parts.wrappers.CastObservationToFloat32(Given("env")))
        notes.append("Observations of float64 are cast to float32.")
    if not _is_game(base_env) and says_channels_last(env.observation_space):
        notes.append("Images have their channels last: the first layer turns them to the front.")
    if training["rescale_actions"] and _needs_rescaling(env.action_space):
        wrappers.append(parts.wrappers.NormalizeActionSpace(Given("env")))
        notes.append(f"Actions of the agent are in [-1, 1]. The environment's are in {_bounds(env.action_space)}.")
    if not _is_game(base_env) and _is_bare_game(env):
        notes.append(
            f"env is the game {env.spec.id!r} without wrappers: pass its id, or wrap it with `wrap_deepmind` of "
            "pfrl_like.wrappers.atari_wrappers."
        )
    for wrapper in wrappers:
        env = evaluate(wrapper, {"env": env})
    return wrappers, Spaces(env.observation_space, env.action_space), notes


def _selection(env: Any, arguments: Mapping[str, Any]) -> Call:
    """Return the call of `SelectFeatures`. Tuples and arrays become lists, as in a stored composition."""
    try:
        lists = {key: [*value] if isinstance(value, tuple | np.ndarray) else value for key, value in arguments.items()}
        call: Call = parts.wrappers.SelectFeatures(Given("env"), **lists)
        evaluate(call, {"env": env})
    except (TypeError, ValueError) as error:
        raise type(error)(f"select_features is {arguments!r:.80}: {error}") from error
    return call


def training_wrappers_of(base_env: Call | None, training: Mapping[str, Any]) -> list[Call]:
    """Return the wrappers of an environment in training, inside of the others.

    Args:
        base_env: Call that makes an environment. None if the caller passes an environment.
        training: All settings of training.
    """
    wrappers = []
    if _is_game(base_env) and training["episode_life"]:
        wrappers.append(parts.atari_wrappers.EpisodicLifeEnv(Given("env")))
    if _is_game(base_env) and training["clip_rewards"]:
        wrappers.append(parts.atari_wrappers.ClipRewardEnv(Given("env")))
    if training["reward_scale"] != 1:
        wrappers.append(parts.wrappers.ScaleReward(Given("env"), training["reward_scale"]))
    return wrappers


def _is_game(base_env: Call | None) -> bool:
    """True if a call makes an Atari game."""
    return base_env is not None and names_of(base_env._function) == ["atari_wrappers.make_atari"]


def _is_bare_game(env: Any) -> bool:
    """True if an environment is an Atari game whose observations no wrapper changes."""
    game_id = getattr(getattr(env, "spec", None), "id", "")
    return is_atari(game_id) and env.observation_space == env.unwrapped.observation_space


def with_time_limit(base_env: Call | None, limit: int | None) -> Call | None:
    """Return the call that makes an environment, with a time limit, unless it is None.

    Args:
        base_env: Call that makes an environment. None if the caller passes an environment.
        limit: Maximum number of the agent's actions in an episode. In an Atari game, the limit is one of frames, four
            for each action. It also counts the no-ops at the start, 1 to 30 frames, so that up to 8 actions fewer are
            left.

    Raises:
        ValueError: If the environment is not made from an id, or the limit is too large.
    """
    if limit is None:
        return base_env
    if base_env is None or not isinstance(base_env._function, Name):
        raise ValueError(f"max_episode_steps is {limit}, expected None, because only environments with an id have one")
    name, factor = ("max_frames", _FRAME_SKIP) if _is_game(base_env) else ("max_episode_steps", 1)
    if factor * limit > MAX_LIMIT:
        raise ValueError(f"max_episode_steps is {limit}, expected at most {MAX_LIMIT // factor:,}")
    return Call(base_env._function, base_env._args, {name: factor * limit})


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
