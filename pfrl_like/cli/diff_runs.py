"""`diff-runs A B`: where two runs that should be the same begin to differ, and what may explain it."""

import argparse
import tempfile
from typing import Any

from pfrl_like.cli.closer_look import look_closely
from pfrl_like.cli.explanations import explanations
from pfrl_like.cli.parting import Parting, first_record, first_tensors
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.rerun import RerunError


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "diff-runs",
        help="name the first step and the tensors in which two runs differ, and what may explain it",
        description="Compares the traces of two runs, which hold checksums of observations, actions, rewards and "
        "losses at every step and of the agent's tensors at every checkpoint, and their run.json. Where only tensors "
        "can tell, both programs are started again and train from the last checkpoint at which all was the same, or "
        "from the start, up to the first difference; nothing is written into the run directories by this library then. "
        "Exit status: 0 if the traces are the same as far as both go, 1 if not.",
    )
    parser.add_argument("a", metavar="A", help="run directory")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument("--no-rerun", action="store_true", help="start no program")
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
    named = tensors.differs and tensors.t == tensors.same + 1
    if not (arguments.no_rerun or named) and (tensors.differs or record.asks_for_tensors):
        _look_again(outdirs, record, tensors)
    print("what may explain it:")
    for line in [*explanations(outdirs)] or ["nothing that run.json tells of"]:
        print(f"  {line}")
    return 1


def _look_again(outdirs: tuple[str, str], record: Parting, tensors: Parting) -> None:
    """Print what a closer look finds; that there can be none is no reason to tell less."""
    until = min(parting.t for parting in (record, tensors) if parting.differs)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = look_closely(outdirs, scratch, since=max(tensors.same, 0), until=until)
        except (RerunError, CheckpointError) as error:
            found = f"there is no closer look: {error}"
    print(f"again: {found}")
