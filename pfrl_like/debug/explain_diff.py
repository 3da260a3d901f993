"""What the records of two runs tell that may explain why the runs differ."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.debug.trace_diff import a_few
from pfrl_like.errors import CheckpointError
from pfrl_like.runs.run_files import LARGEST_RECORD, RECORD
from pfrl_like.storage import read_json

#: What differs in the records of any two runs.
_ALWAYS = ("outdir", "start", "end", "seconds", "outcome", "t", "episodes", "earlier_parts", "started_as")
_LARGEST = 1 << 24  # of arguments, in bytes
_HASHES, _FILES = "settings.PYTHONHASHSEED", "files."

#: Why a difference in what begins so may be one in the numbers; what comes first is looked at first.
_WHY = {
    _HASHES: "sets of text have another order",
    "settings.ATEN_CPU_CAPABILITY": "other kernels compute, which round otherwise",
    "settings.cpu_capability": "other kernels compute, which round otherwise",
    "settings.deterministic": "other kernels compute, which round otherwise",
    "settings.CUBLAS": "sums are made in another order",
    "settings": "sums are made in another order",
    "hardware.torch_threads": "sums are made in another order",
    "hardware": "other kernels compute, which round otherwise",
    "device": "other kernels compute, which round otherwise",
    "seeds": "other random numbers were drawn from the start",
    "versions": "another version computes",
    "git_head": "the program may be another one",
    "command": "other arguments",
    "arguments": "other arguments",
}


def record_of(outdir: str) -> dict[str, Any]:
    """The record of a run.

    Raises:
        CheckpointError: If there is none, or it is damaged.
    """
    return read_json(os.path.join(outdir, RECORD), LARGEST_RECORD)


def explanations(outdirs: tuple[str, str], repeats: bool = True) -> Iterator[str]:
    """What differs, in lines of text, and what does not and yet may be why.

    Args:
        outdirs: The run directories.
        repeats: Whether nothing is known of a run that is not the same if it is trained again.
    """
    one, other = (_told(outdir) for outdir in outdirs)
    differ = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    if files := [name.removeprefix(_FILES) for name in differ if name.startswith(_FILES)]:
        yield f"files of the program: {a_few(files)} (it is another one)"
    for name in (name for name in differ if not name.startswith(_FILES)):
        why = next((f" ({why})" for start, why in _WHY.items() if name.startswith(start)), "")
        yield f"{name}: {one.get(name)!r} and {other.get(name)!r}{why}"
    if _HASHES not in differ and one.get(_HASHES) in (None, "random") and not (differ and repeats):
        yield f"{_HASHES}: not set, so that sets of text have another order in every process"
    yield from dict.fromkeys(line for record in (one, other) for line in _without_control(record))


def _without_control(record: Mapping[str, Any]) -> Iterator[str]:
    """What lets two runs differ although their records do not."""
    if not str(record.get("device")).startswith("cuda"):
        return
    yield "device: a GPU, whose losses a trace has of every 100 updates"
    if not record.get("settings.deterministic"):
        yield "settings.deterministic: off on a GPU, where kernels may then make sums in another order every time"


def _told(outdir: str) -> dict[str, Any]:
    """What a run's record and its arguments tell, without where it was when it was made."""
    record = record_of(outdir)
    content = {name: value for name, value in record.items() if name not in _ALWAYS}
    arguments = os.path.join(outdir, "args.txt")
    if os.path.isfile(arguments):
        with contextlib.suppress(CheckpointError):  # what JSON does not know
            content["arguments"] = read_json(arguments, _LARGEST)
    start, place = (str(record.get(name) or outdir) for name in ("directory", "outdir"))
    return {name: _placeless(value, start, place) for name, value in _flat("", content)}


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _flat(f"{name}.{key}" if name else key, item)


def _placeless(value: Any, start: str, outdir: str) -> Any:
    """A value in which nothing names the run directory; the program may name it from where it has started."""
    if isinstance(value, list):
        return [_placeless(item, start, outdir) for item in value]
    if not isinstance(value, str):
        return value
    option, sign, path = value.rpartition("=")
    try:
        is_place = bool(path) and os.path.realpath(os.path.join(start, path)) == os.path.realpath(outdir)
    except ValueError:  # it can be no path
        return value
    return f"{option}{sign}DIR" if is_place else value
