"""Training an interval of two runs again, with a look at all tensors and random streams after every step."""

import os
import re
from typing import NamedTuple

from pfrl_like.debug.explain_diff import record_of
from pfrl_like.debug.rerun import RerunError, check_owner, command_of, place_of, train_again
from pfrl_like.debug.trace import read_records
from pfrl_like.debug.trace_diff import Lines, Parting, differing, first_of_lines, first_record, lines_of, repetition
from pfrl_like.processes.rerun_order import Order
from pfrl_like.runs.checksums import STREAM
from pfrl_like.runs.run_files import RECORD

_CHECKPOINT = re.compile(r"(\d+)_checkpoint")
_FROM_START = "random streams from the start (if nobody draws from them, all is well)"
_OF_ENVIRONMENTS = "._np_random"  # how gymnasium calls streams of environments and spaces


class Found(NamedTuple):
    """What a closer look has found.

    Attributes:
        text: That in words.
        repeats: Whether nothing is known of a run that is not the same if it is trained again.
    """

    text: str
    repeats: bool = True


def look_closely(outdirs: tuple[str, str], scratch: str, since: int, until: int, known: Parting) -> Found:
    """What differs first in two runs that are trained again, and is not known yet.

    Args:
        outdirs: Their directories, which are left alone.
        scratch: Directory for what they write now.
        since: Last step at which all tensors are known to be the same.
        until: Step to train to.
        known: Where their records part.

    Raises:
        RerunError: If a program cannot be started, or does not train so far again.
        CheckpointError: If a record is damaged, or another user's.
    """
    starts = [_checkpoints(outdir) for outdir in outdirs]
    start = max((t for t in starts[0].keys() & starts[1].keys() if t <= since), default=0)
    again, notes = [], []
    for name, outdir, checkpoints in zip("ab", outdirs, starts, strict=True):
        folder = os.path.join(scratch, name)
        order = Order(place_of(record_of(outdir), outdir), folder, "", checkpoints.get(start, ""), since, until)
        again.append(_trained_again(outdir, order))
        if (itself := repetition(outdir, order.diverted)).differs:
            notes.append(f"{outdir} does not repeat itself, {itself.text}")
    repeats, found = not notes, first_of_all(*again)
    if not repeats and is_unseeded(found[_FROM_START]):
        notes.append(
            "env.reset(seed=...) and env.action_space.seed(...) before training seed what an environment draws"
        )
    if not any(parting.differs for parting in found.values()):
        notes.append(f"nothing differs now up to step {until:,}")
    elif not found["tensors"].differs:
        notes.append(f"tensors: {found['tensors'].text}")
    if found["steps"].t == known.t:
        del found["steps"]
    parted = sorted((parting.t, i, name) for i, (name, parting) in enumerate(found.items()) if parting.differs)
    return Found("\n       ".join(notes + [f"{name}: {found[name].text}" for _, _, name in parted]), repeats)


def first_of_all(a: str, b: str) -> dict[str, Parting]:
    """Where runs differ first that were looked at closely; of one step, what comes about first is first."""
    lines = lines_of(a), lines_of(b)
    streams, tensors = ([_only(part, is_stream) for part in lines] for is_stream in (True, False))
    start = min((t for t in streams[0].keys() & streams[1].keys() if streams[0][t]), default=-1)
    first = [{start: part[start]} if start in part else {} for part in streams]
    unlike = {*differing(*(part.get(start, {}) for part in streams))}
    drawn = [{t: {name: part[t][name] for name in part[t] if name not in unlike} for t in part} for part in streams]
    return {
        _FROM_START: first_of_lines(*first),
        "steps": first_record(a, b),
        "tensors": first_of_lines(*tensors),
        "random streams": first_of_lines(*drawn),
    }


def is_unseeded(streams: Parting) -> bool:
    """Whether streams of an environment are among those that differ from the start."""
    return streams.differs and _OF_ENVIRONMENTS in streams.text


def _only(lines: Lines, streams: bool) -> Lines:
    return {t: {name: line[name] for name in line if name.startswith(STREAM) == streams} for t, line in lines.items()}


def _trained_again(outdir: str, order: Order) -> str:
    """Where what a run leaves that is trained again."""
    record = record_of(outdir)
    check_owner(os.path.join(outdir, RECORD), command_of(record), record["directory"], "it is not started")
    train_again(record, order)
    steps = read_records(order.diverted)["t"]
    if not len(steps) or steps[-1] < order.until:
        raise RerunError(f"trained again, {outdir} has ended before step {order.until:,}")
    return order.diverted


def _checkpoints(outdir: str) -> dict[int, str]:
    """The checkpoints of a run that training can go on from, by their step."""
    paths = {int(match[1]): os.path.join(os.path.realpath(outdir), match[0])
             for name in os.listdir(outdir) if (match := _CHECKPOINT.fullmatch(name))}  # fmt: skip
    return {t: path for t, path in paths.items() if os.path.isdir(os.path.join(path, "run"))}
