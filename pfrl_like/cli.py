"""Command line: `replay-crash DIR` repeats a rejected update, `diff-runs A B` finds where two runs first differ."""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence

from pfrl_like.debug.crash_replay import CRASH, RerunError, check_owner, diagnosis_text, read_crash, rerun_crash
from pfrl_like.debug.trace import read_tensors
from pfrl_like.debug.trace_diff import Difference, compare_reruns, explanations, first_record, first_tensor_difference
from pfrl_like.errors import CheckpointError, PfrlLikeError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Name of the command and its arguments. If None, the command line of this process.

    Returns:
        Exit status: 0 or 1 is the result of the command. 2 is an error; its message is printed to stderr.
    """
    parser = argparse.ArgumentParser(prog="python -m pfrl_like", description="Analyses the files of runs.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    summary = "repeat an update that was rejected because of NaN or infinity"
    command = commands.add_parser("replay-crash", help=summary, description=_replay.__doc__)
    command.add_argument("directory", metavar="DIR", help="folder crash-<t> of a run directory")
    program = "command line to start instead of the recorded one; put it after --"
    command.add_argument("program", metavar="PROGRAM", nargs="*", help=program)
    command.set_defaults(function=_replay)
    summary = "show the first step and the tensors in which two runs differ, and possible causes"
    command = commands.add_parser("diff-runs", help=summary, description=_compare.__doc__)
    command.add_argument("a", metavar="A", help="run directory")
    command.add_argument("b", metavar="B", help="other run directory")
    choice = command.add_mutually_exclusive_group()
    choice.add_argument("--no-rerun", action="store_true", help="do not start the programs again")
    choice.add_argument("--rerun", action="store_true", help="always start both programs, to compare random streams")
    command.set_defaults(function=_compare)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.function(arguments))
    except (PfrlLikeError, OSError) as error:
        print(f"python -m pfrl_like: error: {error}", file=sys.stderr)
        return 2


def _replay(arguments: argparse.Namespace) -> int:
    """Starts the program of a run again, and repeats the rejected update with the agent that the program makes.

    The state of the agent, the minibatch and the random streams are loaded from the crash record. This library writes
    nothing into the run directory, but the program itself may. Exit status: 0 if the update is rejected again, 1 if
    not.
    """
    directory = os.path.abspath(arguments.directory)
    record = read_crash(directory)
    print(f"step {record['t']}: {record['error']}\nrecorded: {diagnosis_text(record)}", flush=True)
    if not arguments.program:
        check_owner(os.path.join(directory, CRASH), record, "if you trust it, pass the program after --")
    answer = rerun_crash(record, os.path.dirname(directory), crash=directory, command=arguments.program)
    again = answer["error_again"]
    print(f"repeated: {again}\n          {answer['diagnosis_text']}" if again else "repeated: the update is finite")
    return 0 if again else 1


#: Maximum number of steps after the first differing loss for which a rerun compares tensors. With gradient clipping,
#: the tensors can still be equal at the first of these steps, although the losses differ.
_SEARCHED_STEPS = 1000


def _compare(arguments: argparse.Namespace) -> int:
    """Compares the traces and the run.json of two runs.

    A trace contains checksums of observations, actions, rewards and losses at every step, and of the agent's tensors at
    every checkpoint. If losses are the first difference, or if tensors first differ between two checkpoints, both
    programs are started again, to find the step and the tensors. They start from the last checkpoint at which all
    checksums are equal, or from step 0 if there is no such checkpoint. This library writes nothing into the run
    directories during the rerun. Exit status: 0 if the traces are equal over their common length, 1 if not.
    """
    outdirs = arguments.a, arguments.b
    record, tensors = first_record(*outdirs), first_tensor_difference(*map(read_tensors, outdirs))
    print(f"steps: {record.text}\ntensors: {tensors.text}", flush=True)
    if not (record.differs or tensors.differs):
        return 0
    interval = closer_interval(record, tensors)
    is_reproducible = True
    if arguments.rerun or (not arguments.no_rerun and needs_rerun(record, tensors, *interval)):
        with tempfile.TemporaryDirectory() as scratch:
            try:
                text, is_reproducible = compare_reruns(outdirs, scratch, *interval, known=record)
            except (RerunError, CheckpointError) as error:  # the rest of the result is still printed
                text = f"the rerun failed: {error}"
        print(f"rerun: {text}")
    print("possible causes:")
    for line in [*explanations(outdirs, is_reproducible)] or ["none in run.json"]:
        print(f"  {line}")
    return 1


def closer_interval(record: Difference, tensors: Difference) -> tuple[int, int]:
    """Return the first and the last step of the interval that a rerun of both programs compares."""
    since, known = max(tensors.same, 0), tensors.t if tensors.differs else record.last
    if record.differs and record.t <= known and not record.needs_tensors:
        return min(since, record.t - 1), record.t
    if record.differs and since < record.t <= known:
        return since, min(record.t + _SEARCHED_STEPS, known)
    return since, max(known, 1)


def needs_rerun(record: Difference, tensors: Difference, since: int, until: int) -> bool:
    """True if a rerun of the interval can find more differences than the traces show."""
    is_in_tensors = not record.differs or 0 <= tensors.t < record.t
    return (is_in_tensors or record.needs_tensors) and until > since + 1
