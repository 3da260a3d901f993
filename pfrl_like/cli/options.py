"""Options of commands as the arguments of `make`: names, numbers, settings, datasets, and files `run.toml`."""

import argparse
import functools
import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any

import gymnasium

from pfrl_like import datasets
from pfrl_like.cli.toml_values import from_toml, to_toml
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import PfrlLikeError
from pfrl_like.storage.atomic import read_bounded
from pfrl_like.utils.checks import check_numbers
from pfrl_like.zoo.agents import Recipe, find_agent
from pfrl_like.zoo.make import PACKAGED, Made, make

_DOWNLOADED = ("d4rl", "minari", "pybullet")
_OPTIONS = ("agent", "env", "steps", "seed", "threads", "dataset")
#: Options that end training before its last step.
STOPS = ("stop_at_score", "stop_after")
_MAX_BYTES = 1 << 24


def load_dataset(name: str) -> MDPDataset:
    """Return a dataset.

    Args:
        name: "cartpole", "pendulum", the name of a public dataset as in "d4rl:hopper-medium-v2", or a path.
    """
    source, _, public_name = name.partition(":")
    if name in PACKAGED.values() or (source in _DOWNLOADED and public_name):
        dataset: MDPDataset = getattr(datasets, f"get_{source}")(*([public_name] if public_name else []))[0]
        return dataset
    return MDPDataset.load(name)


def read_config(path: str) -> dict[str, Any]:
    """Read a file `run.toml`.

    Returns:
        The values of the options that the file has, and "settings", "composition".

    Raises:
        ValueError: If the file is no TOML file or has unknown keys.
        CheckpointError: If the file cannot be read.
    """
    config = tomllib.loads(read_bounded(path, _MAX_BYTES).decode())
    tables = {name: config.pop(name, {}) for name in ("settings", "composition")}
    if unknown := config.keys() - {*_OPTIONS, *STOPS}:
        known = ", ".join([*_OPTIONS, *STOPS, *tables])
        raise ValueError(f"{path} has the key {min(unknown)!r}, expected some of {known}")
    if not all(isinstance(table, dict) for table in tables.values()):
        raise ValueError(f"{path} has settings that are no table, expected lines such as lr = 1e-4 below [settings]")
    settings = {name: from_toml(value) for name, value in tables["settings"].items()}
    return {**config, "settings": settings, "composition": tables["composition"].get("json")}


def read_config_option(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the content of the file of `--config`, or no settings.

    Raises:
        argparse.ArgumentError: If the file is invalid.
    """
    if arguments.config is None:
        return {"settings": {}}
    try:
        return read_config(arguments.config)
    except (ValueError, OSError) as error:
        raise argument_error("--config", error) from error


def config_text(options: Mapping[str, Any], made: Made, composition: str) -> str:
    """Return the content of `run.toml`.

    Args:
        options: Result of `options_of`.
        made: Agent that was made from the options.
        composition: The plan of the run as JSON.
    """
    plan = made.plan
    values = {"agent": plan.agent_name, "env": options["env"], "seed": plan.seed}
    values |= {"steps": plan.steps, "threads": plan.threads}
    values |= {name: options[name] for name in ("dataset", *STOPS) if options[name] is not None}
    settings = {name: value for name, value in made.settings.items() if name != "steps"}
    lines = ["# To train again with these settings: pfrl-like train --config run.toml"]
    for table in (values, settings, {"json": composition}):
        lines += [f"{name} = {to_toml(value)}" for name, value in table.items()]
        lines += ["", "[settings]"] if table is values else ["", "[composition]"] if table is settings else []
    return "\n".join(lines) + "\n"


def options_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the values of the options from which an agent is made. Options replace the values in the file `--config`.

    The dataset is a name or a path. If there is no environment, it is that of a dataset in the package.

    Raises:
        argparse.ArgumentError: If a required option is missing, the file of `--config` is invalid, or a setting has an
            option of its own.
    """
    config = read_config_option(arguments)
    given = {name: getattr(arguments, name, None) for name in (*_OPTIONS, *STOPS)}  # `show` has no options for stops
    options = {name: config.get(name) if value is None else value for name, value in given.items()}
    _check_stops(options)
    if options["env"] is None:
        options["env"] = {name: env_id for env_id, name in PACKAGED.items()}.get(str(options["dataset"]))
    if os.path.exists(options["dataset"] or ""):
        options["dataset"] = os.path.abspath(str(options["dataset"]))
    for name in ("agent", "env"):
        if options[name] is None:
            missing = f"the argument {name.upper()}" if arguments.command == "show" else f"the option --{name}"
            raise argparse.ArgumentError(None, f"{missing} is required")
    settings = config["settings"] | dict(arguments.settings)
    if own := [name for name in (*_OPTIONS, *STOPS) if name in settings]:
        option = f"--{own[0].replace('_', '-')}"
        raise argparse.ArgumentError(None, f"argument --set: {own[0]} is no setting, use the option {option}")
    return {**options, "settings": settings}


def _check_stops(options: Mapping[str, Any]) -> None:
    """Raise `argparse.ArgumentError` if the file of `--config` has an invalid score or time to stop."""
    given = {name: options[name] for name in STOPS if options[name] is not None}
    try:
        check_numbers(**given)
        if given.get("stop_after", 1) <= 0:
            raise ValueError(f"stop_after is {given['stop_after']}, expected a positive number of minutes")
    except (ValueError, TypeError) as error:
        raise argument_error("--config", error) from error


def make_of(options: Mapping[str, Any]) -> Made:
    """Return what `make` makes from options.

    Raises:
        argparse.ArgumentError: If an option is invalid. The message names the option.
    """
    given = {name: value for name, value in options.items() if value is not None and name not in STOPS}
    arguments = {"seed": 0, "threads": 1} | given
    settings = arguments.pop("settings")
    if arguments.get("dataset") not in {None, *PACKAGED.values()}:
        try:
            arguments["dataset"] = load_dataset(arguments["dataset"])
        except (ValueError, OSError) as error:
            raise argument_error("--dataset", error) from error
    try:
        return make(**{**settings, **arguments})
    except PfrlLikeError:
        raise
    except (ImportError, gymnasium.error.Error) as error:  # of the module of an environment
        raise argument_error("--env", error) from error
    except (ValueError, TypeError) as error:
        argument = str(error).split(" ", 1)[0].removesuffix("_id")  # messages begin with the name of the argument
        option = argument if argument in _OPTIONS else "set" if settings else "agent"
        raise argument_error(f"--{option}", error) from error


def agent_of(option: str, name: Any) -> tuple[str, Recipe]:
    """Return what `find_agent` returns for the name of an agent.

    Raises:
        argparse.ArgumentError: If there is no such agent. The message names the option.
    """
    try:
        return find_agent(name)
    except (ValueError, TypeError) as error:
        raise argument_error(option, error) from error


#: Hints of errors for Python programs (regular expressions), and those for the command line in their place.
_HINTS = {
    r"pass (make_agent|given)=.*": "only a Python program can load this agent, see load_agent",
    r"pass an MDPDataset": "pass --dataset",
    r"pass 'next_row'.* as reward_convention": "a Python program can write it again, see MDPDataset.dump",
    r" A run with checkpoint_freq saves .*": " With --new, a new run starts",
    r"(; networks compute in float32|: evaluate it with agents|: export agent)\b.*": "",
}


def command_text(error: BaseException) -> str:
    """Return the message of an error, with hints for the command line in place of those for Python programs."""
    return functools.reduce(lambda text, hint: re.sub(hint[0], hint[1], text), _HINTS.items(), str(error))


def argument_error(option: str, reason: Exception | str) -> argparse.ArgumentError:
    """Return the error of an option, for a reason, which may be another error."""
    return argparse.ArgumentError(None, f"argument {option}: {reason}")
