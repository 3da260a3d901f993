"""The commands: `replay-crash DIR` makes a refused update again, `diff-runs A B` says where two runs differ."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from pfrl_like.debug.crash_replay import CRASH, RerunError, check_owner, command_of, in_words, read_crash, start_again
from pfrl_like.debug.trace_diff import Found, Parting, explanations, first_record, first_tensors, look_closely
from pfrl_like.errors import CheckpointError, PfrlLikeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Its name and arguments; None takes those of this process.

    Returns:
        Exit status: 0 or 1 is the command's answer, 2 an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m pfrl_like", description="Looks at what runs have left.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_replay_crash(commands)
    add_diff_runs(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.function(arguments))
    except (PfrlLikeError, OSError) as error:
        print(f"python -m pfrl_like: error: {error}", file=sys.stderr)
        return 2


def add_replay_crash(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "replay-crash",
        help="make an update again that was refused since a number in it was NaN or infinite",
        description="Starts the program of the run again, which makes the agent; the agent is loaded from the record, "
        "and the update is made again from its minibatch and random streams. Nothing is written into the run directory "
        "by this library; what the program itself writes is its own business. Exit status: 0 if the update is refused "
        "again, 1 if not.",
    )
    parser.add_argument("directory", metavar="DIR", help="crash-<t> in a run directory")
    parser.add_argument(
        "program", metavar="PROGRAM", nargs="*", help="what to start, after --, instead of what the record names"
    )
    parser.set_defaults(function=replay)


def replay(arguments: argparse.Namespace) -> int:
    """Print what the record tells and what the update says now.

    Raises:
        CheckpointError: If the record is damaged, or another user's.
    """
    directory = os.path.abspath(arguments.directory)
    record = read_crash(directory)
    print(f"step {record['t']}: {record['error']}\nthen: {in_words(record)}", flush=True)
    if not arguments.program:
        advice = "if that may run, give it after --"
        check_owner(os.path.join(directory, CRASH), command_of(record), record["directory"], advice)
    found = start_again(record, os.path.dirname(directory), crash=directory, command=arguments.program)
    again = found["error_again"]
    print(f"now: {again}\n     {found['in_words']}" if again else "now: the update is made, all its numbers are finite")
    return 0 if again else 1


#: Steps after a loss that differs in which tensors are looked for: where gradients are clipped, they may be the same.
_BEYOND = 1000


def add_diff_runs(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "diff-runs",
        help="name the first step and the tensors in which two runs differ, and what may explain it",
        description="Compares the traces of two runs, which hold checksums of observations, actions, rewards and "
        "losses at every step and of the agent's tensors at every checkpoint, and their run.json. Where a closer look "
        "can tell more (what differs first is a loss, or tensors between two checkpoints), both programs are started "
        "again and train from the last checkpoint at which all was the same, or from the start, until tensors differ; "
        "nothing is written into the run directories by this library then. "
        "Exit status: 0 if the traces are the same as far as both go, 1 if not.",
    )
    parser.add_argument("a", metavar="A", help="run directory")
    parser.add_argument("b", metavar="B", help="another one")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--no-rerun", action="store_true", help="start no program")
    choice.add_argument("--rerun", action="store_true", help="start both whatever differs first, to see streams, too")
    parser.set_defaults(function=compare)


def compare(arguments: argparse.Namespace) -> int:
    """Print where the traces part, and what in the records of the runs differs.

    Raises:
        CheckpointError: If a directory holds no trace, or is damaged.
    """
    outdirs = arguments.a, arguments.b
    record, tensors = first_record(*outdirs), first_tensors(*outdirs)
    print(f"steps: {record.text}\ntensors: {tensors.text}", flush=True)
    if not (record.differs or tensors.differs):
        return 0
    interval = closer_interval(record, tensors)
    repeats = True
    if arguments.rerun or (not arguments.no_rerun and tells_more_in(record, tensors, *interval)):
        repeats = _look_again(outdirs, record, *interval)
    print("what may explain it:")
    for line in [*explanations(outdirs, repeats)] or ["nothing that run.json tells of"]:
        print(f"  {line}")
    return 1


def closer_interval(record: Parting, tensors: Parting) -> tuple[int, int]:
    """The steps from and up to which a closer look at two runs is taken."""
    since, known = max(tensors.same, 0), tensors.t if tensors.differs else record.last
    if record.differs and record.t <= known and not record.asks_for_tensors:
        return min(since, record.t - 1), record.t
    if record.differs and since < record.t <= known:
        return since, min(record.t + _BEYOND, known)
    return since, max(known, 1)


def tells_more_in(record: Parting, tensors: Parting, since: int, until: int) -> bool:
    """Whether a closer look at an interval can tell more than is known."""
    is_in_tensors = not record.differs or 0 <= tensors.t < record.t
    return (is_in_tensors or record.asks_for_tensors) and until > since + 1


def _look_again(outdirs: tuple[str, str], record: Parting, since: int, until: int) -> bool:
    """Print what a closer look finds; that there can be none is no reason to tell less.

    Returns:
        Whether both runs repeat themselves, as far as that is known.
    """
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = look_closely(outdirs, scratch, since, until, known=record)
        except (RerunError, CheckpointError) as error:
            found = Found(f"there is no closer look: {error}")
    print(f"again: {found.text}")
    return found.repeats
