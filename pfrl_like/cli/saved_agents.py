"""Commands that use a saved agent: `evaluate`, `watch`, `ope` and `export`."""

import argparse
import contextlib
import dataclasses
import math
import os
import sys
import warnings
from typing import Any

from pfrl_like.cli.environment import environment_of
from pfrl_like.cli.options import argument_error, load_dataset
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import eval_performance
from pfrl_like.experiments.checkpoints import agents_in
from pfrl_like.export.export_policy import FORMATS
from pfrl_like.storage.directory import has_manifest
from pfrl_like.utils.random_seed import set_random_seed
from pfrl_like.zoo.load_agent import load_agent

_CONFIDENCE = 0.95


def evaluate(arguments: argparse.Namespace) -> int:
    """Print the score of a saved agent."""
    from pfrl_like.ope.estimates import student_quantile  # with its package, it takes long to import

    directory = agent_directory(arguments.directory)
    agent = load_agent(directory)
    set_random_seed(arguments.seed)
    with contextlib.closing(environment_of(directory, agent, arguments.env, arguments.seed)) as env:
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
    if not (arguments.gif or arguments.mp4) and (reason := no_display()):
        text = f"there is no display for a window, because {reason}: write a video with --gif FILE or --mp4 FILE"
        raise argument_error("--gif", text)
    directory = agent_directory(arguments.directory)
    agent, path = load_agent(directory), arguments.gif or arguments.mp4
    options = {"seed": arguments.seed, "render_mode": "human" if path is None else "rgb_array"}
    set_random_seed(arguments.seed)
    with contextlib.closing(environment_of(directory, agent, arguments.env, **options)) as env:
        if path is None:
            print(f"{_title(agent, env)}: mean {eval_performance(env, agent, None, arguments.episodes)['mean']:.6g}")
            return 0
        from pfrl_like.experiments import record_video

        ending = ".gif" if arguments.gif else ".mp4"
        path = path if path.lower().endswith(ending) else path + ending
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
        names = {"algo": "DIR", "n_steps": "--steps", "gamma": "--gamma", "estimators": "--estimators"}
        raise argument_error(names.get(str(error).split(" ", 1)[0], "--dataset"), error) from error
    for name, each in estimates.items():
        print(dataclasses.replace(each, estimator=name))  # the name that --estimators takes
    return 0


def export(arguments: argparse.Namespace) -> int:
    """Write the policy of a saved agent to a file."""
    if os.path.splitext(arguments.file)[1] not in FORMATS:
        raise argument_error("FILE", f"got {arguments.file!r}, expected a path that ends in {', '.join(FORMATS)}")
    directory = agent_directory(arguments.directory)
    agent = load_agent(directory)
    with contextlib.closing(environment_of(directory, agent, arguments.env, 0)) as env:
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
    for path in agents_in(directory):
        return path
    raise CheckpointError(directory, "contains no saved agent; expected a run directory, or one that agent.save wrote")


def no_display() -> str:
    """Return the reason why there is no display for a window; empty if there is one."""
    driver = os.environ.get("SDL_VIDEODRIVER", "")
    if driver in ("dummy", "offscreen"):
        return f"SDL_VIDEODRIVER is {driver} (if the window does not use SDL, unset it)"
    names = "DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"
    is_found = not sys.platform.startswith("linux") or any(map(os.environ.get, names))
    return "" if is_found else "neither DISPLAY nor WAYLAND_DISPLAY is set"


def _title(agent: Any, env: Any) -> str:
    return f"{type(agent.agent).__name__} in {getattr(env.spec, 'id', type(env).__name__)}"
