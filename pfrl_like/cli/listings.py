"""Commands that print: `show`, `list` and `report`."""

import argparse
import inspect
import os
import sys
from typing import Any

from pfrl_like.cli.options import STOPS, agent_of, argument_error, make_of, options_of, read_config
from pfrl_like.cli.run_choice import CONFIG
from pfrl_like.envs.make_env import installed_env_ids
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.report import write_report
from pfrl_like.runs.run_files import RECORD, SCORES, column_of, record_of
from pfrl_like.zoo import presets
from pfrl_like.zoo.agents import AGENTS
from pfrl_like.zoo.make import PACKAGED
from pfrl_like.zoo.names import resolve

#: Arguments of runners that do the same as the options.
_STOPS = {"stop_at_score": "the argument successful_score", "stop_after": "hooks=[StopAfter(minutes=...)]"}

#: Datasets that are not in this package.
_DATASETS = """d4rl:NAME            D4RL, for example d4rl:hopper-medium-v2 (downloaded)
minari:ID            Minari, for example minari:mujoco/hopper/medium-v0 (downloaded)
pybullet:NAME        d4rl_pybullet, for example pybullet:hopper-bullet-mixed-v0 (downloaded)
FILE.npz, FILE.h5    a file of MDPDataset.dump, or arrays with the same names"""


def show(arguments: argparse.Namespace) -> int:
    """Print the script of an agent. Options that end training early are not part of it, and are named on stderr."""
    options = options_of(arguments)
    print(make_of(options).script(), end="")
    if stops := [f"{name} = {options[name]:g} ({_STOPS[name]})" for name in STOPS if options[name] is not None]:
        print(f"note: the script does not contain {' and '.join(stops)}", file=sys.stderr)
    return 0


def print_list(arguments: argparse.Namespace) -> int:
    """List agents, presets, datasets, environments, or the names of an agent's settings."""
    if arguments.agent is not None and arguments.kind != "settings":
        raise argument_error("AGENT", f"got {arguments.agent!r}, expected none: only `list settings` takes an agent")
    if arguments.kind == "agents":
        print(f"{'agent':<29} {'learns':<12} {'actions':<20} class")
        for name, recipe in AGENTS.items():
            text = (inspect.getdoc(resolve(f"agents.{recipe.class_name}")) or "").split("\n", 1)[0]
            actions = "any" if len(recipe.actions) > 2 else ", ".join(recipe.actions)
            learns = "asynchronous" if recipe.runner == "async" else recipe.runner
            print(f"{name:<29} {learns:<12} {actions:<20} {recipe.class_name}: {text}")
    elif arguments.kind == "presets":
        for row in presets.describe():
            text = f"tuned: {row.score}" if row.is_tuned else f"untuned, from {row.source}"
            print(f"{row.agent:<29} {row.env_id:<28} {text}")
    elif arguments.kind == "datasets":
        for env_id, name in PACKAGED.items():
            print(f"{name:<20} {env_id}, in this package")
        print(_DATASETS)
    elif arguments.kind == "settings":
        print("\n".join([*agent_of("AGENT", arguments.agent)[1].keywords(), *presets.TRAINING]))
    else:
        print("\n".join(installed_env_ids()))
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Print a table of runs, and write their reports."""
    outdirs = [outdir for path in arguments.runs for outdir in _runs_in(path)]
    print(f"{'agent':<26}{'environment':<24}{'seed':<5}{'steps':>10}{'score':>12}{'best':>12}  outcome, report")
    for outdir in outdirs:
        record, scores = record_of(outdir), column_of(outdir, SCORES, "mean")
        last, best = (f"{each:.6g}" for each in (scores[1][-1], max(scores[1]))) if scores[1] else ("none", "none")
        steps = record.get("t", max(scores[0], default=0))
        write_report(outdir)
        names = record | _config_of(outdir)
        row = f"{names.get('agent')!s:<26}{names.get('env')!s:<24}{names.get('seed', ''):<5}{steps:>10,.0f}"
        print(f"{row}{last:>12}{best:>12}  {record.get('outcome')}, {os.path.join(outdir, 'report.html')}")
    return 0


def _config_of(outdir: str) -> dict[str, Any]:
    """Return the content of `run.toml`; empty if this program has not started the run."""
    try:
        return read_config(os.path.join(outdir, CONFIG))
    except ValueError:
        return {}


def _runs_in(path: str) -> list[str]:
    """Return a directory if it is a run directory, and the run directories in it, by name.

    Raises:
        CheckpointError: If there is none.
    """
    inner = [os.path.join(path, name) for name in sorted(os.listdir(path))]
    found = [outdir for outdir in [path, *inner] if os.path.exists(os.path.join(outdir, RECORD))]
    if not found:
        raise CheckpointError(path, f"contains no {RECORD}; expected a run directory, or a directory of them")
    return found
