"""`diff-runs A B`: where two runs that should be the same begin to differ, and what may explain it."""

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.trace import CHANNELS, RECORDS, read_records, read_tensors
from pfrl_like.storage import read_json

#: What in `run.json` differs between any two runs.
_ALWAYS = ("start", "end", "seconds", "outcome", "t", "episodes", "earlier_parts")
_LARGEST = 1 << 24  # of run.json, in bytes
#: Names of tensors that are printed.
_FEW = 10


def add_to(commands: Any) -> None:
    """Add the command to those of a parser."""
    parser = commands.add_parser(
        "diff-runs",
        help="name the first step and the tensors in which two runs differ, and what may explain it",
        description="Compares the traces of two runs, which hold checksums of observations, actions, rewards and "
        "losses at every step and of the agent's tensors at every checkpoint, and their run.json. Exit status: 0 if "
        "the traces are the same as far as both go, 1 if not.",
    )
    parser.add_argument("a", metavar="A", help="run directory")
    parser.add_argument("b", metavar="B", help="another one")
    parser.set_defaults(function=compare)


def compare(arguments: argparse.Namespace) -> int:
    """Print where the traces part, and what in the records of the runs differs.

    Raises:
        CheckpointError: If a directory holds no trace.
    """
    outdirs = arguments.a, arguments.b
    step, found = _first_record(outdirs)
    at, tensors = _first_tensors(outdirs)
    print(found)
    print(at)
    if step is None and not tensors:
        return 0
    differences = [*_differences(*(_flat("", _record(outdir)) for outdir in outdirs))]
    print("run.json differs in:" if differences else "run.json tells of no difference that could explain it")
    for line in differences:
        print(f"  {line}")
    return 1


def _first_record(outdirs: tuple[str, str]) -> tuple[int | None, str]:
    """The first step at which the records of two runs differ, and that in words."""
    one, other = (_records(outdir) for outdir in outdirs)
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    if not len(differ):
        last = int(one["t"][n - 1]) if n else 0
        whose = "both" if len(one) == len(other) else "one"
        return None, f"steps: the same up to step {last:,}, where the trace of {whose} ends"
    i = int(differ[0])
    steps = one["t"][i], other["t"][i]
    if steps[0] != steps[1]:
        return i, f"steps: record {i:,} is of step {steps[0]:,} in {outdirs[0]}, of step {steps[1]:,} in {outdirs[1]}"
    first = [channel for channel in CHANNELS if one[channel][i] != other[channel][i]]
    told = f"the first that differs is step {steps[0]:,}, in its {' and '.join(first)}"
    return i, f"steps: {told}; {_WHENCE[first[0]]}"


#: What a difference in one channel tells, if those that come before it do not differ.
_WHENCE = {
    "action": "the agent chose otherwise for the same observation, unless an episode began there with another one",
    "observation": "the environment answered otherwise to the same action",
    "reward": "the environment gave another reward for the same action and observation",
    "loss": "what was seen, done and got is the same, so that something else was learnt from, or in another way",
}


def _first_tensors(outdirs: tuple[str, str]) -> tuple[str, list[str]]:
    """In words at which checkpoint tensors differ first, and their names."""
    one, other = ({line["t"]: line["tensors"] for line in read_tensors(outdir)} for outdir in outdirs)
    same: int | None = None
    for t in sorted(one.keys() & other.keys()):
        names = [name for name in one[t] | other[t] if one[t].get(name) != other[t].get(name)]
        if names:
            more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
            since = "" if same is None else f", those of step {same:,} not"
            return f"tensors: at step {t:,} these differ{since}: {', '.join(names[:_FEW])}{more}", names
        same = t
    return f"tensors: {'none to compare' if same is None else f'the same up to step {same:,}'}", []


def _records(outdir: str) -> Any:
    if not os.path.isfile(os.path.join(outdir, RECORDS)):
        raise CheckpointError(outdir, f"holds no trace of a run: there is no {RECORDS} in it")
    return read_records(outdir)


def _record(outdir: str) -> dict[str, Any]:
    content = read_json(os.path.join(outdir, "run.json"), _LARGEST)
    return {name: value for name, value in content.items() if name not in _ALWAYS}


def _flat(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {name: value}
    parts = (_flat(f"{name}.{key}" if name else key, item) for key, item in value.items())
    return {key: item for part in parts for key, item in part.items()}


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[str]:
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            yield f"{name}: {one.get(name)!r} and {other.get(name)!r}"
