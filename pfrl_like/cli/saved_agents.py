"""Commands that use a saved agent: `evaluate`, `watch`, `ope` and `export`."""

import argparse
import contextlib
import math
import os
import re
import warnings
from collections.abc import Callable
from typing import Any

from pfrl_like.cli.options import argument_error, load_dataset
from pfrl_like.envs import make_env
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import eval_performance
from pfrl_like.experiments.checkpoints import saved_in
from pfrl_like.export.export_policy import FORMATS
from pfrl_like.storage.attributes import COMPOSITION, KIND, MAX_COMPOSITION
from pfrl_like.storage.directory import has_manifest, load_directory
from pfrl_like.storage.json_file import read_json
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.wrappers.atari_wrappers import make_atari
from pfrl_like.zoo import composition
from pfrl_like.zoo.load_agent import load_agent

_CONFIDENCE = 0.95
#: Functions that make an environment of its id, by their names in compositions.
_MAKERS: dict[str, Callable[..., Any]] = {"envs.make_env": make_env, "atari_wrappers.make_atari": make_atari}
#: Maximum integer among the arguments of a stored wrapper.
_MAX_INT = 1_000


def evaluate(arguments: argparse.Namespace) -> int:
    """Print the score of a saved agent."""
    from pfrl_like.ope.estimates import student_quantile  # with its package, it takes long to import

    directory = agent_directory(arguments.directory)
    agent = load_agent(directory)
    set_random_seed(arguments.seed)
    with contextlib.closing(_environment(directory, arguments.env, arguments.seed)) as env:
        result = eval_performance(env, agent, None, arguments.episodes)
    n, mean, std = result["episodes"], result["mean"], result["stdev"]
    interval = ""
    if n > 1:
        half = student_quantile((1 + _CONFIDENCE) / 2, n - 1) * std / math.sqrt(n)
        interval = f", std {std:.6g}, {_CONFIDENCE:.0%} interval [{mean - half:.6g}, {mean + half:.6g}]"
    print(f"{_title(agent, env)}: mean {mean:.6g}{interval}, episodes {n} ({directory})")
    return 0


def watch(arguments: argparse.Namespace) -> int:
    """Show a saved agent in a window, or write a video."""
    directory = agent_directory(arguments.directory)
    agent, path = load_agent(directory), arguments.gif or arguments.mp4
    mode = "human" if path is None else "rgb_array"
    set_random_seed(arguments.seed)
    with contextlib.closing(_environment(directory, arguments.env, arguments.seed, render_mode=mode)) as env:
        if path is None:
            print(f"{_title(agent, env)}: mean {eval_performance(env, agent, None, arguments.episodes)['mean']:.6g}")
            return 0
        from pfrl_like.experiments import record_video

        path = _with_ending(path, ".gif" if arguments.gif else ".mp4")
        _, returns = record_video(agent, env, path, n_episodes=arguments.episodes, seed=arguments.seed)
    print(f"{_title(agent, env)}: returns {', '.join(f'{each:.6g}' for each in returns)} in {path}")
    return 0


def estimate(arguments: argparse.Namespace) -> int:
    """Print estimates of the return of a saved agent from recorded data."""
    from pfrl_like.ope import UnreliableEstimateWarning, evaluate_offline

    agent = load_agent(agent_directory(arguments.directory)).agent
    try:
        dataset = load_dataset(arguments.dataset)
    except (ValueError, OSError) as error:
        raise argument_error("--dataset", error) from error
    set_random_seed(arguments.seed)
    gamma = agent.gamma if arguments.gamma is None else arguments.gamma
    options = {"gamma": gamma, "n_steps": arguments.steps, "estimators": arguments.estimators}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreliableEstimateWarning)  # an estimate is printed with its warning
            estimates = evaluate_offline(agent, dataset, **options, show_progress=False)
    except (ValueError, TypeError) as error:
        names = {"n_steps": "--steps", "gamma": "--gamma", "estimators": "--estimators"}
        raise argument_error(names.get(str(error).split(" ", 1)[0], "--dataset"), error) from error
    for each in estimates.values():
        print(each)
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write the policy of a saved agent to a file."""
    if os.path.splitext(arguments.file)[1] not in FORMATS:
        raise argument_error("FILE", f"got {arguments.file!r}, expected a path that ends in {', '.join(FORMATS)}")
    directory = agent_directory(arguments.directory)
    agent = load_agent(directory)
    with contextlib.closing(_environment(directory, arguments.env, 0)) as env:
        signature = agent.export(arguments.file, example_obs=env.observation_space)
    for side, ports in (("input", signature.inputs), ("output", signature.outputs)):
        for port in ports:
            print(f"{side} {port.name}: {port.dtype} [{', '.join(map(str, port.shape))}] {port.part}".rstrip())
    return 0


def agent_directory(directory: str) -> str:
    """Return the directory of a saved agent: `best` or the newest agent of a run directory, or the directory itself.

    Raises:
        CheckpointError: If there is no saved agent.
    """
    if has_manifest(directory):
        return directory
    saved = [os.path.join(directory, "best"), *(each.path for each in saved_in(directory))]
    for path in saved:
        if has_manifest(path):
            return path
    raise CheckpointError(directory, "contains no saved agent; expected a run directory, or one that agent.save wrote")


def _environment(directory: str, env_id: str | None, seed: int, **kwargs: Any) -> Any:
    """Make the environment in which a saved agent was trained, with its time limit and the wrappers of its evaluations.

    The directory may come from someone else. Only the environment and the wrappers of gymnasium and of this package are
    made, and its id must not name a module, which would be imported.

    Args:
        directory: Directory of the agent.
        env_id: Id of another environment, which has its own time limit. None for the one of the agent.
        seed: Seed of the environment.
        **kwargs: Arguments of `make_env`.

    Raises:
        CheckpointError: If `env_id` is None and the environment is unknown or cannot be made.
        argparse.ArgumentError: If the environment `env_id` cannot be made.
    """
    make, stored_id, limit, wrappers = _stored_environment(directory)
    if env_id is None and stored_id is None:
        raise CheckpointError(directory, "has no id of an environment of gymnasium: name the environment with --env")
    try:
        env = make(env_id or stored_id, **kwargs, **({} if env_id else limit))
        for wrapper in wrappers:
            env = composition.evaluate(wrapper, {"env": env})
        env.reset(seed=seed)
        env.action_space.seed(seed)
        return env
    except Exception as error:  # each package of environments has its own exceptions
        text = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if env_id is None:
            raise CheckpointError(directory, f"has an environment that cannot be made: {text}") from error
        raise argument_error("--env", error if isinstance(error, ValueError) else text) from error


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
            is_limit = limit.keys() <= {"max_episode_steps", "max_frames"}
            if path in _MAKERS and is_limit and re.fullmatch(r"[\w./-]+", env_id):
                return _MAKERS[path], env_id, limit, wrappers
    return make_env, None, {}, wrappers


def _is_wrapper(value: Any) -> bool:
    """True for a call of a wrapper of this package. Arguments: the environment, numbers, texts, and lists of these.

    Integers are bounded, because they may be a number of frames, which take memory.
    """
    match value:
        case composition.Call(composition.Name(path), (composition.Given("env"), *args), kwargs):
            values = [*args, *kwargs.values()]
            flat = [part for each in values for part in (each if isinstance(each, list) else [each])]
            are_plain = all(
                isinstance(each, float | str) or (isinstance(each, int) and abs(each) <= _MAX_INT) for each in flat
            )
            return path.startswith(("wrappers.", "atari_wrappers.")) and are_plain
    return False


def _title(agent: Any, env: Any) -> str:
    return f"{type(agent.agent).__name__} in {getattr(env.spec, 'id', type(env).__name__)}"


def _with_ending(path: str, ending: str) -> str:
    return path if path.lower().endswith(ending) else path + ending
