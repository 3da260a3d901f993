"""The choice of a run directory: an unfinished run that has the same settings, or a new run."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.cli.options import STOPS, config_text, read_config
from pfrl_like.cli.toml_values import to_toml
from pfrl_like.errors import CheckpointError
from pfrl_like.experiments import new_run_directory
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.runs.run_files import directory_lock, record_of
from pfrl_like.storage import atomic_write
from pfrl_like.zoo.make import Made

#: Name of the file in a run directory that has the settings of the run.
CONFIG = "run.toml"


@contextlib.contextmanager
def run_directory(root: str, options: Mapping[str, Any], made: Made, *, new: bool) -> Iterator[tuple[str, bool]]:
    """Context in which this process is the only one that writes into a run directory.

    The directory is that of the newest unfinished run that has the same settings and that no other process has locked.
    Without one, it is that of a finished run. Without one of these, it is that of a run that other options to stop than
    these have ended, and which continues. Otherwise, or if `new` is True, it is a new directory. `run.toml` is written,
    with the options to stop of this process. If there is an unfinished run with other settings, a new run gets a note.
    Yields the path, and True if the run is finished.

    Args:
        root: Parent of the run directories.
        options: Result of `options_of`.
        made: Agent that was made from the options.
        new: True for a new directory.
    """
    name = options["env"], made.plan.agent_name, made.plan.seed
    if rerun_request() is not None:  # this process repeats a run: its directory must not change
        yield new_run_directory(root, *name), False
        return
    composition = json.dumps(made.plan.to_json())
    content = config_text(options, made, composition).encode()
    wanted = {"composition": composition, "dataset": options["dataset"]}
    for outdir in [] if new else sorted(_runs(root, wanted), key=lambda outdir: _state(outdir, options)):
        with contextlib.ExitStack() as lock:
            if _state(outdir, options) != _FINISHED:
                try:
                    lock.enter_context(directory_lock(outdir))
                except CheckpointError:  # another process writes into this directory
                    continue
            is_finished = _state(outdir, options) == _FINISHED  # perhaps by another process, before it was locked
            if not is_finished:
                atomic_write(os.path.join(outdir, CONFIG), content, durable=False)
            yield outdir, is_finished
            return
    outdir = new_run_directory(root, *name)
    with directory_lock(outdir):
        atomic_write(os.path.join(outdir, CONFIG), content, durable=False)
        made.plan.notes += [] if new else _differences(outdir)
        yield outdir, False


def _differences(outdir: str) -> list[str]:
    """Return a sentence about the newest unfinished run of the same agent, environment and seed with other settings.

    Without such a run, the list is empty.

    Args:
        outdir: Directory of a new run, beside those of the others.
    """
    own = _values(outdir)
    for other in _runs(os.path.dirname(outdir), {name: own[name] for name in ("agent", "env", "seed")}):
        if other == outdir or _state(other, own) != _UNFINISHED:
            continue
        with contextlib.suppress(CheckpointError), directory_lock(other):  # another process may write into it
            theirs = _values(other)
            names = [name for name in own | theirs if own.get(name) != theirs.get(name) and name not in STOPS]
            texts = [f"{name} = {to_toml(theirs.get(name)):.80}" for name in names] or ["those of another version"]
            return [f"The unfinished run {other} has other settings: {', '.join(texts)}."]
    return []


def _values(outdir: str) -> dict[str, Any]:
    """Return all options and settings in the `run.toml` of a run."""
    config = read_config(os.path.join(outdir, CONFIG))
    return {**config, **config["settings"], "settings": None, "composition": None}


#: States of a run, in the order in which they are preferred. A run is stopped if options such as `--stop-at-score`
#: have ended it, and other ones are wanted now. With the same ones, it is finished.
_UNFINISHED, _FINISHED, _STOPPED = range(3)


def _state(outdir: str, stops: Mapping[str, Any]) -> int:
    """Return the state of a run.

    Args:
        outdir: Its directory.
        stops: Options to stop that are wanted now. Other options are ignored.
    """
    outcome = str(record_of(outdir).get("outcome", ""))
    if outcome.startswith("stopped"):
        config = read_config(os.path.join(outdir, CONFIG))
        return _FINISHED if all(config.get(name) == stops.get(name) for name in STOPS) else _STOPPED
    return _FINISHED if outcome.startswith("finished") else _UNFINISHED


def _runs(root: str, wanted: Mapping[str, Any]) -> list[str]:
    """Return the directories of the runs whose `run.toml` has these values, newest first. A missing key is None."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(root):
            path = os.path.join(root, name, CONFIG)
            with contextlib.suppress(ValueError, OSError):  # the file is missing or damaged
                config = read_config(path)
                if all(config.get(name) == value for name, value in wanted.items()):
                    found.append((os.stat(path).st_mtime_ns, os.path.join(root, name)))
    return [outdir for _, outdir in sorted(found, reverse=True)]
