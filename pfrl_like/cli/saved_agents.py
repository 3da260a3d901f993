"""Commands that use a saved agent: `evaluate`, `watch`, `ope` and `export`."""

import argparse
import contextlib
import math
import os
import re
import warnings
from typing import Any

from pfrl_like.cli.options import argument_error, load_dataset
from pfrl_like.envs import make_env
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import eval_performance
from pfrl_like.experiments.checkpoints import saved_in
from pfrl_like.storage.attributes import COMPOSITION, KIND, MAX_COMPOSITION
from pfrl_like.storage.directory import has_manifest, load_directory
from pfrl_like.storage.json_file import read_json
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.zoo import composition
from pfrl_like.zoo.load_agent import load_agent

_CONFIDENCE = 0.95


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
    directory = agent_directory(arguments.directory)
    agent = load_agent(directory)
    with contextlib.closing(_environment(directory, arguments.env, 0)) as env:
        try:
            signature = agent.export(arguments.file, example_obs=env.observation_space)
        except ValueError as error:
            if "format" not in str(error):
                raise
            raise argument_error("FILE", error) from error
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
    """Make the environment in which a saved agent was trained, with the wrappers of its evaluations.

    The directory may come from someone else. Only the environment and the wrappers of gymnasium and of this package are
    made, and its id must not name a module, which would be imported.

    Args:
        directory: Directory of the agent.
        env_id: Id of another environment. None for the one of the agent.
        seed: Seed of the environment.
        **kwargs: Arguments of `make_env`.

    Raises:
        CheckpointError: If the environment is unknown, and `env_id` is None.
        argparse.ArgumentError: If `env_id` is invalid.
    """
    base, wrappers = _stored_environment(directory)
    if env_id is None:
        if not isinstance(base, str) or not re.fullmatch(r"[\w./-]+", base):
            raise CheckpointError(directory, f"was trained in the environment {base!r:.80}: name it with --env")
        env_id = base
    try:
        env = make_env(env_id, **kwargs)
    except ValueError as error:
        raise argument_error("--env", error) from error
    for wrapper in wrappers:
        env = composition.evaluate(wrapper, {"env": env})
    env.reset(seed=seed)
    env.action_space.seed(seed)
    return env


def _stored_environment(directory: str) -> tuple[str | None, list[Any]]:
    """Return the id of the environment of a saved agent, and the calls that wrap it. None if the id is unknown."""
    snapshot = load_directory(directory, kind=KIND, limits={COMPOSITION: MAX_COMPOSITION})
    if COMPOSITION not in snapshot.keys:
        return None, []
    stored = read_json(snapshot.open(COMPOSITION), MAX_COMPOSITION)
    if not isinstance(stored.get("run"), dict):
        return None, []
    try:
        base, wrappers, _ = composition.from_json(stored["run"]["env"])
        for name in composition.names_of(wrappers):
            if not re.fullmatch(r"(gymnasium\.)?wrappers\.\w+", name):
                raise ValueError(f"has the wrapper {name!r}, expected a wrapper of gymnasium or of this package")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(directory, f"has a {COMPOSITION} without a valid environment: {error}") from error
    is_made_by_id = isinstance(base, composition.Call) and composition.names_of(base) == ["envs.make_env"]
    return (base._args[0] if is_made_by_id else None), wrappers


def _title(agent: Any, env: Any) -> str:
    return f"{type(agent.agent).__name__} in {getattr(env.spec, 'id', type(env).__name__)}"


def _with_ending(path: str, ending: str) -> str:
    return path if path.lower().endswith(ending) else path + ending
