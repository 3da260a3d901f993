"""`main`, the parser of all commands, and its completion in shells. Nothing heavy is imported, for a fast `--help`."""

import argparse
import math
import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pfrl_like.cli.toml_values import parse_setting
from pfrl_like.errors import PfrlLikeError

#: Summary, description and examples of each command, and its options.
_COMMANDS, _OPTIONS = (
    tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))
    for name in ("commands", "options")
)
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
    for name, texts in _COMMANDS.items():
        command = subparsers.add_parser(
            name, help=texts["summary"], description=" ".join(texts["description"].split()), allow_abbrev=False,
            epilog=_examples(prog, texts["examples"]), formatter_class=_Formatter,
        )  # fmt: skip
        _add_options(command, _OPTIONS[name])
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


#: Functions that convert the text of an option, by the names of types in `options.toml`.
_TYPES: dict[str, Callable[[str], Any]] = {
    "count": _count, "score": _score, "positive": _positive, "seed": _seed, "float": float, "setting": parse_setting,
}  # fmt: skip


def _add_options(command: Any, options: Sequence[Any]) -> None:
    """Add options of a list in `options.toml` to a command, or to a group of options that exclude each other."""
    for option in options:
        if isinstance(option, str):
            _add_options(command, _OPTIONS[option])
        elif isinstance(option, list):
            _add_options(command.add_mutually_exclusive_group(), option)
        else:
            kind = {"type": _TYPES[option["type"]]} if "type" in option else {}
            command.add_argument(option["name"], **{key: option[key] for key in option if key != "name"} | kind)


_PROGRAM = "pfrl-like"
#: Starts the completion of zsh, if the user's configuration has not, and then that of bash in it.
_ZSH_HEAD = """autoload -U compinit bashcompinit
(( $+functions[compdef] )) || compinit
bashcompinit
"""


def completion_script(shell: str, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """Return the script of a shell.

    Args:
        shell: bash, zsh or fish.
        commands: Parsers of the commands, by name.
    """
    words = {name: _words(command) for name, command in commands.items()}
    if shell == "fish":
        before = f"complete -c {_PROGRAM} -n"
        lines = [f"{before} __fish_use_subcommand -f -a '{' '.join(words)}'"]
        for name, each in words.items():
            lines += [f"{before} '__fish_seen_subcommand_from {name}' {_fish(word)}" for word in each]
        return "\n".join(lines)
    cases = "\n".join(f'    {name}) words="{" ".join(each)}" ;;' for name, each in words.items())
    head = _ZSH_HEAD if shell == "zsh" else ""
    return f"""{head}_pfrl_like() {{
  local words="{" ".join(words)}"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _pfrl_like {_PROGRAM}"""


def _words(command: argparse.ArgumentParser) -> list[str]:
    """Return the options of a command, and the values of arguments that allow only some."""
    options = [action.option_strings[-1] for action in command._actions if action.option_strings]
    return options + [str(value) for action in command._actions for value in action.choices or ()]


def _fish(word: str) -> str:
    return f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-f -a {word}"
