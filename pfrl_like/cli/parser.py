"""`main`, and the parser of all commands. It imports nothing heavy, so that `--help` answers at once."""

import argparse
import math
import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pfrl_like.cli.completion import SHELLS, completion_script
from pfrl_like.cli.toml_values import parse_setting
from pfrl_like.errors import PfrlLikeError

#: Names of the estimators of `evaluate_offline`, whose module imports torch.
ESTIMATORS = ("fqe", "is", "wis", "pdis", "wpdis", "dr", "wdr", "magic")

#: Summary, description and examples of each command.
_TEXTS = Path(__file__).with_name("commands.toml")
#: Examples of the whole program: the first steps of a new user.
_FIRST = (
    "list agents", "train --agent dqn --env CartPole-v1 --outdir results", "report results",
    "evaluate results/20261123-2212-dqn-cartpole-seed0",
)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Name of the command and its arguments. If None, the command line of this process.

    Returns:
        Exit status: 0 or 1 is the result of the command. 2 is an error; its message is printed to stderr. 130 means
        that Ctrl-C ended the command.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    arguments.argv = [*sys.argv[1:]] if argv is None else [*argv]
    if not {"", os.getcwd()} & {*sys.path}:
        if argv is None and hasattr(arguments, "seeds"):
            os.environ["PYTHONSAFEPATH"] = "1"  # processes of this one, too, import no files of the current directory
        if ":" in (getattr(arguments, "env", None) or ""):
            sys.path.append(os.getcwd())  # the user names a module, which may be a file here
    try:
        status = _run(arguments, parser)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader of the output has ended, for example `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (PfrlLikeError, OSError, argparse.ArgumentError) as error:
        from pfrl_like.cli.options import command_text  # imports torch

        print(f"{parser.prog}: error: {command_text(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted", file=sys.stderr)
        return 130


def _run(arguments: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if arguments.command == "completion":
        print(completion_script(arguments.shell, commands_of(parser)))
        return 0
    if arguments.command == "keep-running":
        from pfrl_like.cli.keep_running import keep_running

        return keep_running(arguments)
    of_ray = [name for name in ("address", "cpus") if getattr(arguments, name, None) is not None]
    if of_ray and arguments.on is None:  # processes of this program have --on local
        raise argparse.ArgumentError(None, f"argument --{of_ray[0]}: has no effect without --on ray")
    if getattr(arguments, "seeds", 1) > 1 or getattr(arguments, "on", None) == "ray":
        from pfrl_like.cli.seeds import train_seeds

        return train_seeds(arguments)
    from pfrl_like.cli import diagnosis, listings, saved_agents, training

    functions = {
        "train": training.train, "fit": training.train,
        "evaluate": saved_agents.evaluate, "watch": saved_agents.watch, "ope": saved_agents.estimate,
        "export": saved_agents.export,
        "report": listings.report, "show": listings.show, "list": listings.print_list,
        "replay-crash": diagnosis.replay, "diff-runs": diagnosis.compare,
    }  # fmt: skip
    return int(functions[arguments.command](arguments))


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands, by name."""
    action = next(action for action in parser._actions if isinstance(action.choices, dict))
    return dict(action.choices or {})


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    prog = "pfrl-like" if os.path.basename(sys.argv[0]) == "pfrl-like" else "python -m pfrl_like"
    description = "Trains, evaluates, shows and exports agents, and analyses the files of runs."
    description += f" `{prog} COMMAND --help` describes a command, with examples."
    parser = argparse.ArgumentParser(
        prog=prog, description=description, epilog=_examples(prog, _FIRST), formatter_class=_Formatter,
        allow_abbrev=False,
    )  # fmt: skip
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    commands: dict[str, Any] = {}
    for name, texts in tomllib.loads(_TEXTS.read_text(encoding="utf-8")).items():
        commands[name] = subparsers.add_parser(
            name, help=texts["summary"], description=" ".join(texts["description"].split()), allow_abbrev=False,
            epilog=_examples(prog, texts["examples"]), formatter_class=_Formatter,
        )  # fmt: skip
    _add_training(commands["train"])
    _add_training(commands["fit"])
    _add_saved_agents(commands)
    _add_diagnosis(commands)
    _add_keep_running(commands["keep-running"])
    commands["report"].add_argument("runs", metavar="RUN", nargs="+", help="run directory, or a directory of them")
    for name, text in (("agent", "name of the agent, for example sac"), ("env", "id of the environment")):
        text += "; default: that of --config"
        commands["show"].add_argument(name, metavar=name.upper(), nargs="?", help=text)
    _add_settings(commands["show"])
    kinds = ("agents", "presets", "datasets", "envs", "settings")
    commands["list"].add_argument("kind", choices=kinds, nargs="?", default="agents", help="default: agents")
    commands["list"].add_argument("agent", metavar="AGENT", nargs="?", help="name of the agent of `list settings`")
    commands["completion"].add_argument("shell", choices=SHELLS, help="name of the shell")
    return parser


def _examples(prog: str, examples: Sequence[str]) -> str:
    return "\n  ".join(["examples:", *(f"{prog} {example}" for example in examples)])


class _Formatter(argparse.HelpFormatter):
    """Formatter that keeps the lines of examples."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected an integer of at least 1")
    return int(text)


def _score(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a number")
    return number


def _positive(text: str) -> float:
    if _score(text) <= 0:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a positive number")
    return float(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected an integer of at least 0")
    return int(text)


def _add_settings(command: argparse.ArgumentParser) -> None:
    """Add the options from which an agent is made."""
    add = command.add_argument
    add("--steps", metavar="N", type=_count, help="number of training steps; default: that of the preset")
    add("--seed", metavar="S", type=_seed, help="seed of all random streams; default: 0")
    add("--threads", metavar="N", type=_count, help="number of threads that torch uses; default: 1")
    add("--dataset", metavar="DATA", help="dataset of an offline agent: a name of `list datasets`, or a file")
    text = """replaces a setting of the preset; VALUE is TOML, for example 1e-4, true or [64, 64], or a single word; may
    be repeated; `list settings AGENT` lists all names"""
    add("--set", metavar="NAME=VALUE", type=parse_setting, action="append", default=[], dest="settings", help=text)
    add("--config", metavar="FILE", help="run.toml of a run, whose settings are used; other options replace them")


def _add_training(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--agent", metavar="NAME", help="name of the agent, for example dqn; `list agents` shows all")
    add("--env", metavar="ID", help="id of the environment, for example CartPole-v1 or module:MyEnv-v0")
    _add_settings(command)
    text = "end training when the mean return of an evaluation reaches S"
    add("--stop-at-score", metavar="S", type=_score, help=text)
    text = "end training after this time, the time before an interruption included (except of asynchronous agents)"
    add("--stop-after", metavar="MINUTES", type=_positive, help=text)
    text = "train N seeds at once, the first is that of --seed; default: 1"
    add("--seeds", metavar="N", type=_count, default=1, help=text)
    text = "maximum number of seeds at once; default: number of cores, or with --on ray that of the CPUs of Ray"
    add("--jobs", metavar="N", type=_count, help=text)
    text = """local (the default): on this machine; ray: on the nodes of a cluster of Ray, or in a Ray of its own here;
    needs the extra `distributed`. All nodes need this library, and shared storage with the current directory and
    --outdir. A seed whose process or node is lost is started again, at most 3 times"""
    add("--on", choices=("local", "ray"), help=text)
    text = "address of the cluster, with --on ray; default: RAY_ADDRESS, or else a Ray of its own on this machine"
    add("--address", metavar="ADDRESS", help=text)
    text = "CPUs that Ray reserves for each seed, with --on ray; may be a fraction; default: 1"
    add("--cpus", metavar="N", type=_positive, help=text)
    add("--outdir", metavar="DIR", default="results", help="parent of the run directories; default: results")
    add("--new", action="store_true", help="start a new run, even if there is one with the same settings")
    add("--quiet", action="store_true", help="print only the result")


def _add_saved_agents(commands: dict[str, Any]) -> None:
    for name in ("evaluate", "watch", "ope", "export"):
        commands[name].add_argument("directory", metavar="DIR", help="run directory, or directory of a saved agent")
    for name in ("evaluate", "watch", "export"):
        text = "id of the environment; default: the one in which the agent was trained"
        commands[name].add_argument("--env", metavar="ID", help=text)
    for name, default in (("evaluate", 10), ("watch", 1)):
        add = commands[name].add_argument
        add("--episodes", metavar="N", type=_count, default=default, help=f"number of episodes; default: {default}")
        add("--seed", metavar="S", type=_seed, default=0, help="seed of the environment; default: 0")
    choice = commands["watch"].add_mutually_exclusive_group()
    choice.add_argument("--gif", metavar="FILE", help="write a GIF file instead of opening a window")
    choice.add_argument("--mp4", metavar="FILE", help="write an MP4 file instead; needs the extra `video`")
    commands["export"].add_argument("file", metavar="FILE", help="path that ends in .onnx, .pt or .pt2")
    add = commands["ope"].add_argument
    add("--dataset", metavar="DATA", required=True, help="a name of `list datasets`, or a file")
    add("--gamma", metavar="G", type=float, help="discount factor per step; default: that of the agent")
    add("--steps", metavar="N", type=_count, default=20_000, help="updates of fitted models; default: 20000")
    add("--seed", metavar="S", type=_seed, default=0, help="seed of all random streams; default: 0")
    text = f"some of {', '.join(ESTIMATORS)}; default: all that are possible"
    add("--estimators", metavar="NAME", nargs="+", help=text)


def _add_diagnosis(commands: dict[str, Any]) -> None:
    command = commands["replay-crash"]
    command.add_argument("directory", metavar="DIR", help="folder crash-<t> of a run directory")
    program = "command line to start instead of the recorded one; put it after --"
    command.add_argument("program", metavar="PROGRAM", nargs="*", help=program)
    command = commands["diff-runs"]
    command.add_argument("a", metavar="A", help="run directory")
    command.add_argument("b", metavar="B", help="other run directory")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--no-rerun", action="store_true", help="do not start the programs again")
    choice.add_argument("--rerun", action="store_true", help="always start both programs, to compare random streams")


def _add_keep_running(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    text = "do not start the program again after N failures in the window; default: 10"
    add("--tries", metavar="N", type=_count, default=10, help=text)
    text = "minutes after which a failure is no longer counted; default: 60"
    add("--window", metavar="MINUTES", type=_positive, default=60.0, help=text)
    add("--wait", metavar="SECONDS", type=_positive, default=1.0, help="time before the second try; default: 1")
    text = "exit status after which the program is not started again; may be repeated; default: 2 (invalid arguments)"
    add("--final", metavar="STATUS", type=_count, action="append", help=text)
    add("program", metavar="PROGRAM", nargs="+", help="command line of the program; put it after --")
