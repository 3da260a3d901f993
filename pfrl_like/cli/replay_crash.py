"""`replay-crash DIR`: make an update again that was refused."""

import argparse
import os
from typing import Any

from pfrl_like.debug.crash_replay import CRASH, check_owner, command_of, in_words, read_crash, start_again


def add_to(commands: Any) -> None:
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
