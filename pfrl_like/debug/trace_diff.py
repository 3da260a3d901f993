"""Where the traces of two runs part."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pfrl_like.debug.trace import CHANNELS, RECORDS, read_records, read_tensors
from pfrl_like.errors import CheckpointError

#: Names that are printed.
_FEW = 10
#: What a difference in one channel tells, if those that come before it do not differ.
_WHENCE = {
    "action": "the agent chose otherwise for the same observation, unless an episode began there with another one",
    "observation": "the environment answered otherwise to the same action (env.reset(seed=...) seeds it)",
    "reward": "the environment gave another reward for the same action and observation",
    "loss": "what was seen, done and got is the same, so that something else was learnt from, or in another way",
}

Lines = Mapping[int, Mapping[str, int]]  # checksums by name, by step


class Parting(NamedTuple):
    """Where two traces part.

    Attributes:
        text: That in words.
        same: Last step at which they are known to be the same; -1 for none.
        t: First step at which they are known to differ; -1 if they do not.
        asks_for_tensors: Whether it is tensors that can tell more.
        last: Last step that both have a record of.
    """

    text: str
    same: int
    t: int = -1
    asks_for_tensors: bool = False
    last: int = -1

    @property
    def differs(self) -> bool:
        """Whether they do part."""
        return self.t >= 0


def first_record(a: str, b: str) -> Parting:
    """The first step at which the records of two runs differ.

    Raises:
        CheckpointError: If a directory holds no trace.
    """
    return _parting(_records(a), _records(b), a, b)


def repetition(outdir: str, again: str) -> Parting:
    """Likewise, of a run and the part of it that was trained again."""
    records, now = _records(outdir), _records(again)
    return _parting(records[np.isin(records["t"], now["t"])], now, "the run", "its repetition")


def _parting(one: Any, other: Any, a: str, b: str) -> Parting:
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    i = int(differ[0]) if len(differ) else n
    same = int(one["t"][i - 1]) if i else 0
    if i == n:
        whose = "both" if len(one) == len(other) else "one"
        return Parting(f"the same up to step {same:,}, where the trace of {whose} ends", same)
    steps, last = (int(one["t"][i]), int(other["t"][i])), int(min(one["t"][-1], other["t"][-1]))
    if steps[0] != steps[1]:
        told = f"record {i:,} is of step {steps[0]:,} in {a}, of step {steps[1]:,} in {b}"
        return Parting(told, same, min(steps), last=last)
    first = [channel for channel in CHANNELS if one[channel][i] != other[channel][i]]
    told = f"the first that differs is step {steps[0]:,}, in its {' and '.join(first)}; {_WHENCE[first[0]]}"
    return Parting(told, same, steps[0], first[0] == "loss", last)


def first_tensors(a: str, b: str) -> Parting:
    """The first of the steps of which both have a line at which tensors differ.

    Raises:
        CheckpointError: If a file holds no such lines.
    """
    return first_of_lines(lines_of(a), lines_of(b))


def lines_of(outdir: str) -> Lines:
    """The lines about tensors of a run, by step."""
    return {line["t"]: line["tensors"] for line in read_tensors(outdir)}


def first_of_lines(one: Lines, other: Lines) -> Parting:
    """The first of the steps that both have at which checksums differ."""
    same = -1
    for t in sorted(one.keys() & other.keys()):
        if names := differing(one[t], other[t]):
            since = f", those of step {same:,} not" if same >= 0 else ""
            return Parting(f"at step {t:,} these differ{since}: {a_few(names)}", same, t)
        same = t
    return Parting(f"the same up to step {same:,}" if same >= 0 else "none to compare", same)


def a_few(names: Sequence[str]) -> str:
    """Names, of many only the first and the number of others."""
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")


def differing(one: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    """The names of what differs, or is not in both."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def _records(outdir: str) -> Any:
    if not os.path.isfile(os.path.join(outdir, RECORDS)):
        raise CheckpointError(outdir, f"holds no trace of a run: there is no {RECORDS} in it")
    return read_records(outdir)
