"""Commands that analyse runs: `replay-crash` and `diff-runs`."""

import argparse
import os
import tempfile

from pfrl_like.debug.crash_replay import CRASH, RerunError, check_owner, diagnosis_text, read_crash, rerun_crash
from pfrl_like.debug.trace import read_tensors
from pfrl_like.debug.trace_diff import Difference, compare_reruns, explanations, first_record, first_tensor_difference
from pfrl_like.errors import CheckpointError


def replay(arguments: argparse.Namespace) -> int:
    """Repeat a rejected update. Return 0 if the update is rejected again, 1 if not."""
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


def compare(arguments: argparse.Namespace) -> int:
    """Compare two runs. Return 0 if their traces are equal over their common length, 1 if not."""
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
