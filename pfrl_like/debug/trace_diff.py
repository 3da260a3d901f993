"""Comparison of two runs: the first difference of their traces, and possible causes in their records and reruns."""

import contextlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pfrl_like.debug.crash_replay import RerunError, check_owner, recorded_outdir, rerun_training
from pfrl_like.debug.trace import CHANNELS, read_records, read_tensors
from pfrl_like.errors import CheckpointError
from pfrl_like.processes.rerun_request import RerunRequest
from pfrl_like.runs.checksums import STREAM
from pfrl_like.runs.run_files import MAX_RECORD_BYTES, RECORD
from pfrl_like.storage import read_json

#: Maximum number of names in a message.
_MAX_NAMES = 10
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

Lines = Mapping[int, Mapping[str, int]]  # {step: {name: checksum}}


class Difference(NamedTuple):
    """The first difference of two traces.

    Attributes:
        text: Description of the difference.
        same: Last step at which the traces are known to be equal, or -1.
        t: First step at which the traces are known to differ, or -1 if they are equal.
        needs_tensors: True if a comparison of the agents' tensors may explain the difference.
        last: Last step that both traces contain.
    """

    text: str
    same: int
    t: int = -1
    needs_tensors: bool = False
    last: int = -1

    @property
    def differs(self) -> bool:
        """True if the traces differ."""
        return self.t >= 0


def first_record(a: str, b: str) -> Difference:
    """Return the first difference of the records of two runs.

    Raises:
        CheckpointError: If a directory contains no trace.
    """
    return _difference(read_records(a), read_records(b), a, b)


def compare_with_rerun(outdir: str, again: str) -> Difference:
    """Return the first difference of the records of a run and of its rerun.

    Raises:
        CheckpointError: If a directory contains no trace.
    """
    records, now = read_records(outdir), read_records(again)
    return _difference(records[np.isin(records["t"], now["t"])], now, "the run", "the rerun")


def _difference(one: Any, other: Any, a: str, b: str) -> Difference:
    n = min(len(one), len(other))
    differ = np.flatnonzero(one[:n] != other[:n])
    i = int(differ[0]) if len(differ) else n
    same = int(one["t"][i - 1]) if i else 0
    if i == n:
        whose = "both runs" if len(one) == len(other) else "one run"
        return Difference(f"equal up to step {same:,}, where the trace of {whose} ends", same)
    steps, last = (int(one["t"][i]), int(other["t"][i])), int(min(one["t"][-1], other["t"][-1]))
    if steps[0] != steps[1]:
        text = f"record {i:,} has step {steps[0]:,} in {a} and step {steps[1]:,} in {b}"
        return Difference(text, same, min(steps), last=last)
    first = [channel for channel in CHANNELS if one[channel][i] != other[channel][i]]
    text = f"the first difference is at step {steps[0]:,}, in {' and '.join(first)}; {_TABLES['causes'][first[0]]}"
    return Difference(text, same, steps[0], first[0] == "loss", last)


def first_tensor_difference(one: Lines, other: Lines) -> Difference:
    """Return the first difference of two results of `read_tensors`, among the steps in both."""
    same = -1
    for t in sorted(one.keys() & other.keys()):
        if names := differing_names(one[t], other[t]):
            since = f" (equal at step {same:,})" if same >= 0 else ""
            return Difference(f"at step {t:,} these differ{since}: {some_names(names)}", same, t)
        same = t
    return Difference(f"equal up to step {same:,}" if same >= 0 else "no common steps to compare", same)


def some_names(names: Sequence[str]) -> str:
    """Return a text with at most ten names and the number of remaining names."""
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def differing_names(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names whose values differ. A missing value is None."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


_MAX_ARGUMENT_BYTES = 1 << 24  # maximum size of args.txt, in bytes
_HASH_SEED, _FILES = "settings.PYTHONHASHSEED", "files."


def record_of(outdir: str) -> dict[str, Any]:
    """Return the record of a run.

    Raises:
        CheckpointError: If the record is missing or damaged.
    """
    return read_json(os.path.join(outdir, RECORD), MAX_RECORD_BYTES)


def explanations(outdirs: tuple[str, str], is_reproducible: bool = True) -> Iterator[str]:
    """Yield lines of text about differing fields of the records, and about settings that may change the results.

    Args:
        outdirs: The run directories.
        is_reproducible: False if a run is known to differ from its own rerun.
    """
    one, other = (_fields(outdir) for outdir in outdirs)
    differ = differing_names(one, other)
    if files := [name.removeprefix(_FILES) for name in differ if name.startswith(_FILES)]:
        yield f"source files of the program that differ: {some_names(files)}"
    for name in (name for name in differ if not name.startswith(_FILES)):
        why = next((f" ({why})" for why, starts in _TABLES["effects"] if name.startswith((*starts,))), "")
        yield f"{name}: {one.get(name)!r} and {other.get(name)!r}{why}"
    if _HASH_SEED not in differ and one.get(_HASH_SEED) in (None, "random") and not (differ and is_reproducible):
        yield f"{_HASH_SEED}: not set; sets of strings have a different order in every process"
    if on_gpu := [record for record in (one, other) if str(record.get("device")).startswith("cuda")]:
        yield "device: on a GPU, a trace contains the losses only once every 100 updates"
    if not all(record.get("settings.deterministic") for record in on_gpu):
        yield "settings.deterministic: off; GPU kernels may compute sums in a different order every time"


def _fields(outdir: str) -> dict[str, Any]:
    """Return the fields of a run's record and its arguments, keyed by dotted name. "DIR" replaces the run directory."""
    record = record_of(outdir)
    content = {name: value for name, value in record.items() if name not in _TABLES["ignored"]}
    with contextlib.suppress(CheckpointError):  # args.txt is missing, or is not valid JSON
        content["arguments"] = read_json(os.path.join(outdir, "args.txt"), _MAX_ARGUMENT_BYTES)
    start, place = (str(record.get(name) or outdir) for name in ("directory", "outdir"))
    return {name: _replace_outdir(value, start, place) for name, value in _flatten("", content)}


def _flatten(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _flatten(f"{name}.{key}" if name else key, item)


def _replace_outdir(value: Any, start: str, outdir: str) -> Any:
    """Replace the run directory in a value by "DIR". The path in the value may be relative to the directory `start`."""
    if isinstance(value, list):
        return [_replace_outdir(item, start, outdir) for item in value]
    if not isinstance(value, str):
        return value
    option, sign, path = value.rpartition("=")
    try:
        is_place = bool(path) and os.path.realpath(os.path.join(start, path)) == os.path.realpath(outdir)
    except ValueError:  # path is not a valid path
        return value
    return f"{option}{sign}DIR" if is_place else value


_CHECKPOINT = re.compile(r"(\d+)_checkpoint")
_INITIAL_STREAMS = "initial states of random streams (no problem if the stream is not used)"
_SEED_ADVICE = "to seed the environment, call env.reset(seed=...) and env.action_space.seed(...) before training"
ENV_STREAM = "._np_random"  # gymnasium's attribute for the streams of environments and spaces


def compare_reruns(
    outdirs: tuple[str, str], scratch: str, since: int, until: int, known: Difference
) -> tuple[str, bool]:
    """Repeat a part of two runs, and describe the first differences of the reruns, except the difference `known`.

    Args:
        outdirs: The run directories. They are not changed.
        scratch: Directory for the files of the repeated runs.
        since: Last step at which all tensors are known to be equal.
        until: Last step of the repeated training.
        known: First difference of the records of the two runs.

    Returns:
        A text that describes the differences, and False if a run differs from its own rerun, otherwise True.

    Raises:
        RerunError: If a program cannot be started, or if it ends before step `until`.
        CheckpointError: If a record is damaged or belongs to another user.
    """
    starts = [_checkpoints(outdir) for outdir in outdirs]
    start = max((t for t in starts[0].keys() & starts[1].keys() if t <= since), default=0)
    again, notes = [], []
    for name, outdir, checkpoints in zip("ab", outdirs, starts, strict=True):
        folder = os.path.join(scratch, name)
        run_dir = recorded_outdir(record_of(outdir), outdir)
        request = RerunRequest(run_dir, folder, "", checkpoints.get(start, ""), since, until)
        again.append(_rerun(outdir, request))
        if (itself := compare_with_rerun(outdir, request.rerun_outdir)).differs:
            notes.append(f"{outdir} is not reproducible: {itself.text}")
    is_reproducible, differences = not notes, first_differences(*again)
    if not is_reproducible and ENV_STREAM in differences[_INITIAL_STREAMS].text:
        notes.append(_SEED_ADVICE)
    if not any(each.differs for each in differences.values()):
        notes.append(f"the reruns are equal up to step {until:,}")
    elif not differences["tensors"].differs:
        notes.append(f"tensors: {differences['tensors'].text}")
    if differences["steps"].t == known.t:
        del differences["steps"]
    ranked = sorted((each.t, i, name) for i, (name, each) in enumerate(differences.items()) if each.differs)
    notes += [f"{name}: {differences[name].text}" for _, _, name in ranked]
    return "\n       ".join(notes), is_reproducible


def first_differences(a: str, b: str) -> dict[str, Difference]:
    """Return the first difference of two reruns in each kind of data, keyed by the kind.

    A difference in one kind may cause differences in the later kinds.
    """
    lines = read_tensors(a), read_tensors(b)
    streams, tensors = ([_select(part, is_stream) for part in lines] for is_stream in (True, False))
    start = min((t for t in streams[0].keys() & streams[1].keys() if streams[0][t]), default=-1)
    first = [{start: part.get(start, {})} for part in streams]
    unlike = differing_names(*(part[start] for part in first))
    drawn = [{t: {name: part[t][name] for name in part[t] if name not in unlike} for t in part} for part in streams]
    return {
        _INITIAL_STREAMS: first_tensor_difference(*first),
        "steps": first_record(a, b),
        "tensors": first_tensor_difference(*tensors),
        "random streams": first_tensor_difference(*drawn),
    }


def _select(lines: Lines, streams: bool) -> Lines:
    return {t: {name: line[name] for name in line if name.startswith(STREAM) == streams} for t, line in lines.items()}


def _rerun(outdir: str, request: RerunRequest) -> str:
    """Repeat a part of a run, and return the run directory of the rerun.

    Raises:
        RerunError: If the program cannot be started, or if it ends before the last step of the request.
        CheckpointError: If the record is damaged or belongs to another user.
    """
    record = record_of(outdir)
    check_owner(os.path.join(outdir, RECORD), record, "the program is not started")
    rerun_training(record, request)
    steps = read_records(request.rerun_outdir)["t"]
    if not len(steps) or steps[-1] < request.until:
        raise RerunError(f"the rerun of {outdir} ended before step {request.until:,}")
    return request.rerun_outdir


def _checkpoints(outdir: str) -> dict[int, str]:
    """Return the checkpoints of a run from which training can resume, keyed by step."""
    paths = {int(match[1]): os.path.join(os.path.realpath(outdir), match[0])
             for name in os.listdir(outdir) if (match := _CHECKPOINT.fullmatch(name))}  # fmt: skip
    return {t: path for t, path in paths.items() if os.path.isdir(os.path.join(path, "run"))}
