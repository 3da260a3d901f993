"""The environment of a saved agent: that in which it was trained, or another one with the same spaces."""

import argparse
import contextlib
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

from pfrl_like.cli.options import argument_error
from pfrl_like.envs import make_env
from pfrl_like.errors import CheckpointError
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.storage.attributes import COMPOSITION, KIND, MAX_COMPOSITION
from pfrl_like.storage.directory import load_directory
from pfrl_like.storage.json_file import read_json
from pfrl_like.utils.env_values import space_kind
from pfrl_like.wrappers.atari_wrappers import make_atari
from pfrl_like.zoo import composition
from pfrl_like.zoo.environment import MAX_LIMIT
from pfrl_like.zoo.load_agent import LoadedAgent

#: Functions that make an environment of its id, and their arguments for a time limit, by their names in compositions.
_MAKERS: dict[str, tuple[Callable[..., Any], str]] = {
    "envs.make_env": (make_env, "max_episode_steps"),
    "atari_wrappers.make_atari": (make_atari, "max_frames"),
}
_FRAME_STACK = "atari_wrappers.FrameStack"
#: Wrappers of the evaluations of `make`, by their names in compositions.
_WRAPPERS = {f"wrappers.{name}" for name in ("CastObservationToFloat32", "NormalizeActionSpace", "SelectFeatures")}
_WRAPPERS |= {"atari_wrappers.WarpFrame", _FRAME_STACK}
#: Maximum number of frames of a stored `FrameStack`, which take memory, and maximum length of a list of arguments.
_MAX_FRAMES, _MAX_LIST = 1_000, 1 << 16


def environment_of(directory: str, agent: LoadedAgent, env_id: str | None, seed: int, **kwargs: Any) -> Any:
    """Make the environment in which a saved agent was trained, with its time limit and the wrappers of its evaluations.

    The directory may come from someone else. Only the environment and the wrappers of gymnasium and of this package are
    made, and its id must not name a module, which would be imported.

    Args:
        directory: Directory of the agent.
        agent: The agent.
        env_id: Id of another environment, which has its own time limit. None for the one of the agent.
        seed: Seed of the environment.
        **kwargs: Arguments of `make_env`.

    Raises:
        CheckpointError: If `env_id` is None and the environment is unknown or cannot be made.
        argparse.ArgumentError: If the environment `env_id` cannot be made, or its spaces do not fit the
            agent.
    """
    make, stored_id, limit, wrappers = _stored_environment(directory)
    if env_id is None and stored_id is None:
        raise CheckpointError(directory, "has no id of an environment of gymnasium: name the environment with --env")
    with contextlib.ExitStack() as after_error:
        try:
            env = make(env_id or stored_id, **kwargs, **({} if env_id else limit))
            after_error.callback(env.close)
            if env_id is not None and stored_id is not None:
                _check_spaces(make, stored_id, env_id, env)
            for wrapper in wrappers:
                env = composition.evaluate(wrapper, {"env": env})
            obs, _ = env.reset(seed=seed)
            env.action_space.seed(seed)
        except argparse.ArgumentError:
            raise
        except Exception as error:  # each package of environments has its own exceptions
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"
            if env_id is None:
                raise CheckpointError(directory, f"has an environment that cannot be made: {text}") from error
            raise argument_error("--env", error if isinstance(error, ValueError) else text) from error
        try:
            with isolated_rng():  # actions and networks may be noisy, and the caller has set the seed
                agent.dry_run(obs, env.action_space)
        except (ValueError, TypeError, RuntimeError) as error:  # the environment is unknown, or has changed
            raise argument_error("--env", f"the agent does not fit the environment: {error}") from error
        after_error.pop_all()
    return env


def _check_spaces(make: Callable[..., Any], stored_id: str, env_id: str, env: Any) -> None:
    """Raise `argparse.ArgumentError` if an environment has other spaces than that in which an agent was trained.

    The bounds of spaces are not compared. If the environment of the training cannot be made here, nothing is compared.
    """
    try:
        with contextlib.closing(make(stored_id)) as stored:
            expected, given = _spaces_text(stored), _spaces_text(env)
    except Exception:  # each package of environments has its own exceptions
        return
    if given != expected:
        raise argument_error("--env", f"the agent takes {expected} (those of {stored_id}), but {env_id} has {given}")


def _spaces_text(env: Any) -> str:
    return f"observations {_text(env.observation_space)} and actions {_text(env.action_space)}"


def _text(space: Any) -> str:
    """Return a space as a text without bounds."""
    if space_kind(space) == "box":
        return f"Box of shape {space.shape}"
    if space_kind(space) == "dict":
        return f"Dict({', '.join(f'{key}: {_text(part)}' for key, part in space.spaces.items())})"
    return " ".join(str(space).split())


def _stored_environment(directory: str) -> tuple[Callable[..., Any], str | None, dict[str, int], list[Any]]:
    """Return the function that makes the environment of a saved agent, its id, its time limit, and its wrappers.

    The function is `make_env`, or `make_atari` for games. The time limit is an argument, the wrappers are calls. The id
    is None if it is unknown, or is not only an id.

    Raises:
        CheckpointError: If the stored environment is invalid.
    """
    snapshot = load_directory(directory, kind=KIND, limits={COMPOSITION: MAX_COMPOSITION})
    if COMPOSITION not in snapshot.keys:
        return make_env, None, {}, []
    stored = read_json(snapshot.open(COMPOSITION), MAX_COMPOSITION)
    if not isinstance(stored.get("run"), dict):
        return make_env, None, {}, []
    try:
        base, wrappers, _ = composition.from_json(stored["run"]["env"])
        if not isinstance(wrappers, list) or not all(map(_is_wrapper, wrappers)):
            raise ValueError("expected wrappers of this package around the environment")
        if len(composition.names_of(wrappers)) < len(wrappers):
            raise ValueError("expected each wrapper only once")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(directory, f"has a {COMPOSITION} without a valid environment: {error}") from error
    match base:
        case composition.Call(composition.Name(path), (str(env_id),), limit):
            make, name = _MAKERS.get(path, (None, ""))
            is_limit = all(type(each) is int and 1 <= each <= MAX_LIMIT for each in limit.values())
            if make and limit.keys() <= {name} and is_limit and re.fullmatch(r"[\w./-]+", env_id):
                return make, env_id, limit, wrappers
    return make_env, None, {}, wrappers


def _is_wrapper(value: Any) -> bool:
    """True for a call of a wrapper that `make` uses.

    Arguments are the environment, numbers, texts, and lists and tuples of these.
    """
    match value:
        case composition.Call(composition.Name(path), (composition.Given("env"), *args), kwargs) if path in _WRAPPERS:
            lists = [each if isinstance(each, list | tuple) else [each] for each in [*args, *kwargs.values()]]
            if any(len(each) > _MAX_LIST for each in lists):
                return False
            most = _MAX_FRAMES if path == _FRAME_STACK else math.inf
            flat = itertools.chain(*lists)
            return all(isinstance(part, str) or isinstance(part, int | float) and part <= most for part in flat)
    return False
