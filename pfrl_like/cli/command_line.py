"""The commands, and what is done with their arguments."""

import argparse
import sys
from collections.abc import Sequence

from pfrl_like.cli import diff_runs, replay_crash
from pfrl_like.errors import PfrlLikeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Its name and arguments; None takes those of this process.

    Returns:
        Exit status: 0 or 1 is the command's answer, 2 an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m pfrl_like", description="Looks at what runs have left.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in (replay_crash, diff_runs):
        module.add_to(commands)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.function(arguments))
    except (PfrlLikeError, OSError) as error:
        print(f"python -m pfrl_like: error: {error}", file=sys.stderr)
        return 2
