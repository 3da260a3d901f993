"""Command line: `replay-crash DIR` repeats a refused update, `diff-runs A B` finds the first difference of two runs."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence

from pfrl_like.debug.crash_replay import CRASH, RerunError, check_owner, in_words, read_crash, start_again
from pfrl_like.debug.trace_diff import Found, Parting, explanations, first_record, first_tensors, look_closely
from pfrl_like.errors import CheckpointError, PfrlLikeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Name of the command and its arguments; None takes those of this process.

    Returns:
        Exit status: 0 or 1 is the answer of the command, 2 is an error, which is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m pfrl_like", description="Looks at what runs have left.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    summary = "make an update again that was refused since a number in it was NaN or infinite"
    command = commands.add_parser("replay-crash", help=summary, description=_replay.__doc__)
    command.add_argument("directory", metavar="DIR", help="crash-<t> in a run directory")
    program = "what to start, after --, instead of what the record names"
    command.add_argument("program", metavar="PROGRAM", nargs="*", help=program)
    command.set_defaults(function=_replay)
    summary = "name the first step and the tensors in which two runs differ, and what may explain it"
    command = commands.add_parser("diff-runs", help=summary, description=_compare.__doc__)
    command.add_argument("a", metavar="A", help="run directory")
    command.add_argument("b", metavar="B", help="another one")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--no-rerun", action="store_true", help="start no program")
    choice.add_argument("--rerun", action="store_true", help="start both whatever differs first, to see streams, too")
    command.set_defaults(function=_compare)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.function(arguments))
    except (PfrlLikeError, OSError) as error:
        print(f"python -m pfrl_like: error: {error}", file=sys.stderr)
        return 2


def _replay(arguments: argparse.Namespace) -> int:
    """Starts the program of the run again, which makes the agent.

    The agent is loaded from the record. The update is repeated with the recorded minibatch and random streams. This
    library writes nothing into the run directory; the program itself still may. Exit status: 0 if the update is refused
    again, 1 if not.
    """
    directory = os.path.abspath(arguments.directory)
    record = read_crash(directory)
    print(f"step {record['t']}: {record['error']}\nthen: {in_words(record)}", flush=True)
    if not arguments.program:
        check_owner(os.path.join(directory, CRASH), record, "if that may run, give it after --")
    found = start_again(record, os.path.dirname(directory), crash=directory, command=arguments.program)
    again = found["error_again"]
    print(f"now: {again}\n     {found['in_words']}" if again else "now: the update is made, all its numbers are finite")
    return 0 if again else 1


#: Steps after the first differing loss in which differing tensors are searched; gradient clipping can make tensors
#: equal although the losses differ.
_BEYOND = 1000


def _compare(arguments: argparse.Namespace) -> int:
    """Compares the traces of two runs, and their run.json.

    Traces hold checksums of observations, actions, rewards and losses at every step, and of the agent's tensors at
    every checkpoint. If the first difference is a loss, or tensors between two checkpoints, a rerun can tell more. Then
    both programs are started again and train from the last checkpoint at which everything was equal, or from the start,
    until tensors differ. This library writes nothing into the run directories during the rerun. Exit status: 0 if the
    traces are equal over their common length, 1 if not.
    """
    outdirs = arguments.a, arguments.b
    record, tensors = first_record(*outdirs), first_tensors(*outdirs)
    print(f"steps: {record.text}\ntensors: {tensors.text}", flush=True)
    if not (record.differs or tensors.differs):
        return 0
    interval = closer_interval(record, tensors)
    found = Found("")
    if arguments.rerun or (not arguments.no_rerun and tells_more_in(record, tensors, *interval)):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                found = look_closely(outdirs, scratch, *interval, known=record)
            except (RerunError, CheckpointError) as error:  # the answer without the rerun is still printed
                found = Found(f"there is no closer look: {error}")
        print(f"again: {found.text}")
    print("what may explain it:")
    for line in [*explanations(outdirs, found.repeats)] or ["nothing that run.json tells of"]:
        print(f"  {line}")
    return 1


def closer_interval(record: Parting, tensors: Parting) -> tuple[int, int]:
    """The first and the last step of the interval that a rerun of both programs examines."""
    since, known = max(tensors.same, 0), tensors.t if tensors.differs else record.last
    if record.differs and record.t <= known and not record.asks_for_tensors:
        return min(since, record.t - 1), record.t
    if record.differs and since < record.t <= known:
        return since, min(record.t + _BEYOND, known)
    return since, max(known, 1)


def tells_more_in(record: Parting, tensors: Parting, since: int, until: int) -> bool:
    """True if a rerun of the interval can tell more than the traces do."""
    is_in_tensors = not record.differs or 0 <= tensors.t < record.t
    return (is_in_tensors or record.asks_for_tensors) and until > since + 1
