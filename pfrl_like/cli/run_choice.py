"""The choice of a run directory: an unfinished run that has the same settings, or a new run."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pfrl_like.cli.options import STOPS, config_text, read_config
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
    Without one, it is that of a finished run. Without one of these, or if `new` is True, it is a new directory, in
    which `run.toml` is written. Yields the path, and True if the run is finished.

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
    wanted = {"composition": composition} | {name: options[name] for name in ("dataset", *STOPS)}
    finished = None
    for outdir in [] if new else _runs(root, wanted):
        lock = contextlib.ExitStack()
        if not _is_finished(outdir):
            try:
                lock.enter_context(directory_lock(outdir))
            except CheckpointError:  # another process writes into this directory
                continue
        with lock:
            if not _is_finished(outdir):  # another process may have finished it before it was locked
                yield outdir, False
                return
        finished = finished or outdir
    if finished is not None:
        yield finished, True
        return
    outdir = new_run_directory(root, *name)
    with directory_lock(outdir):
        content = config_text(options, made, composition)
        atomic_write(os.path.join(outdir, CONFIG), content.encode(), durable=False)
        yield outdir, False


def _is_finished(outdir: str) -> bool:
    """True if a run has made its last step, or an option such as `--stop-at-score` has stopped it."""
    return str(record_of(outdir).get("outcome", "")).startswith(("finished", "stopped"))


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
