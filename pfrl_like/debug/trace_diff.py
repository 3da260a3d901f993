"""Comparison of two runs: the first difference of their traces, records, and tensors in repeated training."""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pfrl_like.debug.crash_replay import RerunError, check_owner, place_of, train_again
from pfrl_like.debug.trace import CHANNELS, read_records, read_tensors
from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_order import Order
from pfrl_like.runs.checksums import STREAM
from pfrl_like.runs.run_files import LARGEST_RECORD, RECORD
from pfrl_like.storage import read_json

#: Most names that are printed.
_FEW = 10
#: Meaning of a difference in a channel if the channels before it do not differ.
_WHENCE = {
    "action": "the agent chose otherwise for the same observation, unless an episode began there with another one",
    "observation": "the environment answered otherwise to the same action (env.reset(seed=...) seeds it)",
    "reward": "the environment gave another reward for the same action and observation",
    "loss": "observations, actions and rewards are the same, so the update had other data, or computed otherwise",
}

Lines = Mapping[int, Mapping[str, int]]  # checksums by name, by step


class Parting(NamedTuple):
    """The first difference of two traces.

    Attributes:
        text: Description of the difference.
        same: Last step at which they are known to be the same; -1 for none.
        t: First step at which they are known to differ; -1 if they do not.
        asks_for_tensors: True if the tensors may explain the difference.
        last: Last step of which both have a record.
    """

    text: str
    same: int
    t: int = -1
    asks_for_tensors: bool = False
    last: int = -1

    @property
    def differs(self) -> bool:
        """True if the traces differ."""
        return self.t >= 0


def first_record(a: str, b: str) -> Parting:
    """The first step at which the records of two runs differ.

    Raises:
        CheckpointError: If a directory holds no trace.
    """
    return _parting(read_records(a), read_records(b), a, b)


def repetition(outdir: str, again: str) -> Parting:
    """The first step at which the records of a run and of a repeated part of it differ.

    Raises:
        CheckpointError: If a directory holds no trace.
    """
    records, now = read_records(outdir), read_records(again)
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
    """The first step at which the tensors of two runs differ, among the steps of which both have a line.

    Raises:
        CheckpointError: If a file has a line that is none of a trace.
    """
    return first_of_lines(lines_of(a), lines_of(b))


def lines_of(outdir: str) -> Lines:
    """The checksums of tensors of a run, by step.

    Raises:
        CheckpointError: If the file has a line that is none of a trace.
    """
    return {line["t"]: line["tensors"] for line in read_tensors(outdir)}


def first_of_lines(one: Lines, other: Lines) -> Parting:
    """The first step at which the checksums differ, among the steps that both have."""
    same = -1
    for t in sorted(one.keys() & other.keys()):
        if names := differing(one[t], other[t]):
            since = f", those of step {same:,} not" if same >= 0 else ""
            return Parting(f"at step {t:,} these differ{since}: {a_few(names)}", same, t)
        same = t
    return Parting(f"the same up to step {same:,}" if same >= 0 else "none to compare", same)


def a_few(names: Sequence[str]) -> str:
    """Text of up to ten names, and the number of the others."""
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names whose values differ or are missing in one of the mappings."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


#: Fields that differ in the records of any two runs.
_ALWAYS = ("outdir", "start", "end", "seconds", "outcome", "t", "episodes", "earlier_parts", "started_as")
_LARGEST = 1 << 24  # largest size of the file of arguments, in bytes
_HASHES, _FILES = "settings.PYTHONHASHSEED", "files."
_KERNELS = "other kernels compute, which round otherwise"

#: Possible effect of a difference on the numbers, by the beginning of the field's name; the first match is used.
_WHY: dict[str | tuple[str, ...], str] = {
    _HASHES: "sets of text have another order",
    ("settings.ATEN_CPU_CAPABILITY", "settings.cpu_capability", "settings.deterministic"): _KERNELS,
    ("settings", "hardware.torch_threads"): "sums are made in another order",
    ("hardware", "device"): _KERNELS,
    "seeds": "other random numbers were drawn from the start",
    "versions": "another version computes",
    "git_head": "the program may be another one",
    ("command", "arguments"): "other arguments",
}


def record_of(outdir: str) -> dict[str, Any]:
    """The record of a run.

    Raises:
        CheckpointError: If it is missing or damaged.
    """
    return read_json(os.path.join(outdir, RECORD), LARGEST_RECORD)


def explanations(outdirs: tuple[str, str], repeats: bool = True) -> Iterator[str]:
    """Yield lines of text about fields of the records that differ, and settings that may cause different numbers.

    Args:
        outdirs: The run directories.
        repeats: False if a run is known to differ from its own repetition.
    """
    one, other = (_told(outdir) for outdir in outdirs)
    differ = differing(one, other)
    if files := [name.removeprefix(_FILES) for name in differ if name.startswith(_FILES)]:
        yield f"files of the program: {a_few(files)} (it is another one)"
    for name in (name for name in differ if not name.startswith(_FILES)):
        why = next((f" ({why})" for start, why in _WHY.items() if name.startswith(start)), "")
        yield f"{name}: {one.get(name)!r} and {other.get(name)!r}{why}"
    if _HASHES not in differ and one.get(_HASHES) in (None, "random") and not (differ and repeats):
        yield f"{_HASHES}: not set, so that sets of text have another order in every process"
    if on_gpu := [record for record in (one, other) if str(record.get("device")).startswith("cuda")]:
        yield "device: a GPU, whose losses a trace has of every 100 updates"
    if not all(record.get("settings.deterministic") for record in on_gpu):
        yield "settings.deterministic: off on a GPU, where kernels may then make sums in another order every time"


def _told(outdir: str) -> dict[str, Any]:
    """The fields of a run's record and its arguments, by dotted name, without the name of its directory."""
    record = record_of(outdir)
    content = {name: value for name, value in record.items() if name not in _ALWAYS}
    with contextlib.suppress(CheckpointError):  # there are no arguments, or they are no valid JSON
        content["arguments"] = read_json(os.path.join(outdir, "args.txt"), _LARGEST)
    start, place = (str(record.get(name) or outdir) for name in ("directory", "outdir"))
    return {name: _placeless(value, start, place) for name, value in _flat("", content)}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _flat(f"{name}.{key}" if name else key, item)


def _placeless(value: Any, start: str, outdir: str) -> Any:
    """A value with "DIR" in place of the run directory, which may be relative to the program's working directory."""
    if isinstance(value, list):
        return [_placeless(item, start, outdir) for item in value]
    if not isinstance(value, str):
        return value
    option, sign, path = value.rpartition("=")
    try:
        is_place = bool(path) and os.path.realpath(os.path.join(start, path)) == os.path.realpath(outdir)
    except ValueError:  # it is no valid path
        return value
    return f"{option}{sign}DIR" if is_place else value


_CHECKPOINT = re.compile(r"(\d+)_checkpoint")
_FROM_START = "random streams from the start (if nobody draws from them, all is well)"
_SEEDS = "env.reset(seed=...) and env.action_space.seed(...) before training seed what an environment draws"
_OF_ENVIRONMENTS = "._np_random"  # gymnasium's name of the streams of environments and spaces


class Found(NamedTuple):
    """The result of comparing two runs by repeated training.

    Attributes:
        text: Description of the result.
        repeats: False if a run differs from its own repetition.
    """

    text: str
    repeats: bool = True


def look_closely(outdirs: tuple[str, str], scratch: str, since: int, until: int, known: Parting) -> Found:
    """Repeat a part of two runs and describe their first differences, without those that are known already.

    Args:
        outdirs: The run directories, which are not changed.
        scratch: Directory for the files of the repeated runs.
        since: Last step at which all tensors are known to be the same.
        until: Last step of the repeated training.
        known: The first difference of their records.

    Raises:
        RerunError: If a program cannot be started, or ends before step `until`.
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
        notes.append(_SEEDS)
    if not any(parting.differs for parting in found.values()):
        notes.append(f"nothing differs now up to step {until:,}")
    elif not found["tensors"].differs:
        notes.append(f"tensors: {found['tensors'].text}")
    if found["steps"].t == known.t:
        del found["steps"]
    parted = sorted((parting.t, i, name) for i, (name, parting) in enumerate(found.items()) if parting.differs)
    return Found("\n       ".join(notes + [f"{name}: {found[name].text}" for _, _, name in parted]), repeats)


def first_of_all(a: str, b: str) -> dict[str, Parting]:
    """The first differences of two repeated runs, by kind; within a step, earlier causes come first."""
    lines = lines_of(a), lines_of(b)
    streams, tensors = ([_only(part, is_stream) for part in lines] for is_stream in (True, False))
    start = min((t for t in streams[0].keys() & streams[1].keys() if streams[0][t]), default=-1)
    first = [{start: part.get(start, {})} for part in streams]
    unlike = differing(*(part[start] for part in first))
    drawn = [{t: {name: part[t][name] for name in part[t] if name not in unlike} for t in part} for part in streams]
    return {
        _FROM_START: first_of_lines(*first),
        "steps": first_record(a, b),
        "tensors": first_of_lines(*tensors),
        "random streams": first_of_lines(*drawn),
    }


def is_unseeded(streams: Parting) -> bool:
    """True if streams of an environment are among those that differ from the start."""
    return streams.differs and _OF_ENVIRONMENTS in streams.text


def _only(lines: Lines, streams: bool) -> Lines:
    return {t: {name: line[name] for name in line if name.startswith(STREAM) == streams} for t, line in lines.items()}


def _trained_again(outdir: str, order: Order) -> str:
    """Repeat a part of a run and return its new run directory.

    Raises:
        RerunError: If the program cannot be started, or ends before the last step of the order.
        CheckpointError: If the record is damaged, or another user's.
    """
    record = record_of(outdir)
    check_owner(os.path.join(outdir, RECORD), record, "it is not started")
    train_again(record, order)
    steps = read_records(order.diverted)["t"]
    if not len(steps) or steps[-1] < order.until:
        raise RerunError(f"trained again, {outdir} has ended before step {order.until:,}")
    return order.diverted


def _checkpoints(outdir: str) -> dict[int, str]:
    """The checkpoints of a run from which training can resume, by their step."""
    paths = {int(match[1]): os.path.join(os.path.realpath(outdir), match[0])
             for name in os.listdir(outdir) if (match := _CHECKPOINT.fullmatch(name))}  # fmt: skip
    return {t: path for t, path in paths.items() if os.path.isdir(os.path.join(path, "run"))}
