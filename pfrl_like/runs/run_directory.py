"""`run.json`, `run.log`, and the move of an earlier run's files to another folder when a run starts."""

import contextlib
import datetime
import itertools
import json
import logging
import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.processes.rerun_request import rerun_request
from pfrl_like.runs import run_files
from pfrl_like.runs.environment_record import environment_record
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import command_digest, masked_command, masked_text
from pfrl_like.storage import AppendedFile, atomic_write, make_directory
from pfrl_like.storage.atomic import named_errors, names_in

#: Names of the files that training and evaluation write. They are the same in every run.
TRAINING = (
    "run.log", run_files.METRICS.name, run_files.EPOCHS.name, run_files.RECORD, "learning_curve.svg", "report.html",
    "trace.bin", "trace.jsonl", "checkpoint_buffers", run_files.LOSSES,
)  # fmt: skip
EVALUATION = (run_files.SCORES.name, "best", "successful")
TABLES = {table.name: table for table in (run_files.METRICS, run_files.EPOCHS, run_files.SCORES)}
_OTHER_FILES = re.compile(r"profile-\d+\.out|beyond-\d+-.+")
_STEP_FILE = re.compile(r"(?:bad_batch-)?(\d+)(?:_checkpoint|_finish|_except|_previous|\.pt)|crash-(\d+)")


def progress_of(outdir: str, step_offset: int) -> tuple[int, float]:
    """Return the number of training episodes and the elapsed seconds of a run up to a step, from its tables.

    If `step_offset` is 0, both are 0.
    """

    def largest(table: run_files.Table, column: str, default: float = 0.0) -> float:
        rows = zip(*run_files.column_of(outdir, table, column), strict=True)
        return max((value for t, value in rows if t <= step_offset), default=default)

    if step_offset == 0:
        return 0, 0.0
    episodes = max(largest(run_files.METRICS, "episode", -1) + 1, largest(run_files.SCORES, "episodes"))
    return int(episodes), max(largest(run_files.METRICS, "elapsed"), largest(run_files.SCORES, "elapsed"))


def earlier_parts(outdir: str) -> list[dict[str, Any]]:
    """Return the records of the earlier parts of a run, in the order of time.

    A part of a run is the time from one start or resume to the next. The result contains the first record and the
    newest records, up to half of the maximum size of `run.json`. If records after the first record are omitted, the
    record that follows them contains their number.
    """
    last = run_files.record_of(outdir)
    if not last:
        return []
    if last.get("outcome") == "running":  # the process was killed
        last["outcome"] = "interrupted"
    records: list[dict[str, Any]] = [*last.pop("earlier_parts", []), last]
    first, parts = records[0], records[1:]
    sizes = itertools.accumulate(len(json.dumps(part, indent=2)) for part in reversed(parts))
    fitting = sum(size <= run_files.MAX_RECORD_BYTES // 2 for size in sizes)
    too_many = max(len(parts) - max(fitting, 1), 0)
    left_out = too_many + sum(part.get(run_files.PARTS_LEFT_OUT, 0) for part in parts[: too_many + 1])
    kept = parts[too_many:]
    return [first, *([kept[0] | {run_files.PARTS_LEFT_OUT: left_out}, *kept[1:]] if left_out else kept)]


def move_earlier_files(
    outdir: str,
    step_offset: int,
    logger: logging.Logger,
    *,
    training: bool = True,
    evaluation: bool = True,
    tensorboard: bool = True,
    no_checkpoint: bool = False,
) -> None:
    """Move the files of an earlier run to a subfolder, except files that this run continues. No file is deleted.

    If the run starts at step 0, all files of an earlier run are moved to `earlier-<start of the earlier run>`. If the
    run resumes, everything that belongs to steps after `step_offset` is moved to `beyond-<step_offset>-<start of the
    previous part>`: rows of the tables, agents, and `best` if its score belongs to a later step. A damaged table is
    moved unchanged, and the run continues with its readable lines.

    Args:
        outdir: Run directory. It may be missing.
        step_offset: Step at which the run starts.
        logger: Logger that gets a message about the moved files.
        training: True to move the files of training.
        evaluation: True to move the files of evaluation.
        tensorboard: True to move TensorBoard files. If the run resumes, TensorBoard files are not moved.
        no_checkpoint: True if `resume` was requested but no checkpoint exists. The log message then says this.

    Raises:
        CheckpointError: If a file cannot be moved. The next start moves the remaining files.
    """
    present = set(names_in(outdir)) if os.path.isdir(outdir) else set()
    files = present & {*(TRAINING if training else ()), *(EVALUATION if evaluation else ())}
    agents = {name: step for name in present if training and (step := step_of(name)) is not None}
    rests: dict[str, _SplitTable] = {}
    if step_offset == 0:
        moved = {*files, *agents, *(name for name in present if training and _OTHER_FILES.fullmatch(name))}
        moved |= {name for name in present if tensorboard and _is_earlier_tensorboard_file(name)}
    else:
        moved = {name for name, step in agents.items() if step > step_offset}
        tables = {name: _split(os.path.join(outdir, name), step_offset) for name in files & {*TABLES}}
        rests = {name: table for name, table in tables.items() if table.beyond or table.n_damaged}
        if "best" in files and run_files.SCORES.name in rests and _best_is_later(outdir, step_offset):
            moved.add("best")
    if not moved and not rests:
        return
    folder = _folder(outdir, f"beyond-{step_offset}" if step_offset else "earlier", {*moved, *rests})
    # If the process is killed here, the next run moves the remaining files. That run reads the name of the folder from
    # `run.json` and the steps from the tables. Therefore `run.json` and the tables are moved last.
    for name in sorted(moved, key=lambda name: (name == run_files.RECORD, name)):
        with named_errors(os.path.join(outdir, name), "moved"):
            os.rename(os.path.join(outdir, name), os.path.join(folder, name))
    for name, table in rests.items():
        path, kept = (os.path.join(place, name) for place in (outdir, folder))
        if table.n_damaged:
            with named_errors(path, "moved"):
                try:
                    os.link(path, kept)  # `kept` stays valid when `path` is replaced
                except OSError:  # the file system has no links
                    os.rename(path, kept)
            text = "%s has damaged lines (%d), which are removed or repaired; the original file is %s"
            logger.warning(text, path, table.n_damaged, kept)
        else:
            atomic_write(kept, run_files.encode_lines([table.header, *table.beyond]))
        atomic_write(path, run_files.encode_lines([table.header, *table.kept]))
    if not moved and not any(table.beyond for table in rests.values()):
        return
    text = "the files of an earlier run are now in %s; to continue that run, pass resume=True or step_offset"
    if step_offset:
        text = f"everything that belongs to steps after {step_offset:,} is now in %s"
    elif no_checkpoint:
        text = "no complete checkpoint exists: the run starts at step 0; the files of the earlier run are now in %s"
    # If this call moves only evaluation files, a later call for the training files logs the warning.
    follows = not training and not present.isdisjoint(TRAINING)
    logger.log(logging.INFO if follows else logging.WARNING, text, folder)


def step_of(name: str) -> int | None:
    """Return the step in the name of a saved agent, a rejected minibatch or a crash. None for other names."""
    match = _STEP_FILE.fullmatch(name)
    return None if match is None else int(match[1] or match[2])


def is_run_file(name: str) -> bool:
    """True if a file or folder with this name in a run directory belongs to a run that has ended."""
    is_fixed = name in TRAINING or name in EVALUATION or _OTHER_FILES.fullmatch(name) is not None
    return is_fixed or step_of(name) is not None or _is_earlier_tensorboard_file(name)


def _is_earlier_tensorboard_file(name: str) -> bool:
    """True for a TensorBoard file of an earlier run.

    Files that this process has written are excluded, because the user may still write to them. Files with the suffix
    `RUN_EVENTS_SUFFIX` are included, because a runner wrote them.
    """
    is_users = f".{os.getpid()}." in name and not name.endswith(run_files.RUN_EVENTS_SUFFIX)
    return name.startswith("events.out.tfevents.") and not is_users


class _SplitTable(NamedTuple):
    """The lines of a table up to a step, the lines after this step, and the number of unreadable lines."""

    header: str
    kept: list[str]
    beyond: list[str]
    n_damaged: int


def _split(path: str, step_offset: int) -> _SplitTable:
    """Split a table at a step. The first column is the step. An incomplete last line is treated as a later line."""
    lines, torn = run_files.lines_of(path)
    whole = run_files.valid_lines(lines, TABLES[os.path.basename(path)])
    kept: list[str] = []
    beyond: list[str] = []
    for line in whole[1:]:
        step = re.match(r"\d+", line)
        (kept if step is not None and int(step[0]) <= step_offset else beyond).append(line)
    too_long = sum(len(line) >= run_files.MAX_LINE_LENGTH for line in torn)
    n_damaged = len(lines) - len(whole) + (whole[:1] not in ([], lines[:1])) + too_long
    return _SplitTable("".join(whole[:1]), kept, beyond + torn, n_damaged)


def _best_is_later(outdir: str, step_offset: int) -> bool:
    columns = run_files.column_of(outdir, run_files.SCORES, "mean")
    rows = [(score, -step) for step, score in zip(*columns, strict=True) if math.isfinite(score)]
    return bool(rows) and -max(rows)[1] > step_offset  # if scores are equal, the earliest is the best


def start_of(outdir: str) -> str:
    """Return the time at which the run in a directory started, from `run.json`; the current time if it is unknown."""
    started = str(run_files.record_of(outdir).get("start", ""))[:19]
    return re.sub(r"[^0-9T]", "", started) or time.strftime("%Y%m%dT%H%M%S")


def _folder(outdir: str, kind: str, names: set[str]) -> str:
    """Create a folder named after the start of the earlier run. No file in the folder has one of `names`."""
    start = start_of(outdir)
    folder, number = os.path.join(outdir, f"{kind}-{start}"), 1
    while any(os.path.lexists(os.path.join(folder, name)) for name in names):
        number += 1
        folder = os.path.join(outdir, f"{kind}-{start}-{number}")
    make_directory(folder)
    return folder


def run_info(agent: Any, env: Any, source: Any, evaluator: Any) -> dict[str, Any]:
    """Return the entries of `run.json` about agent, environments, device and dataset.

    Args:
        agent: Agent. Its class and its device are recorded.
        env: Environment. Its registered name is recorded, or the name of its class if the environment is not
            registered.
        source: Source of training steps. If it has a dataset, the reward convention of the dataset is recorded.
        evaluator: Evaluator. Its `env_choice`, a description of the evaluation environment, is recorded.
    """
    return {
        "agent": type(getattr(agent, "agent", agent)).__name__,
        "env": str(getattr(getattr(env, "spec", None), "id", None) or type(env).__name__),
        "eval_env": getattr(evaluator, "env_choice", None),
        "device": str(getattr(agent, "device", "cpu")),
        **logged_convention(source),
    }


class RunRecord:
    """Writes `run.json` when a run starts and again when it ends.

    If the run resumes, "earlier_parts" contains the records of its earlier parts (see `earlier_parts`). Secrets in
    command lines and error messages are masked.

    Args:
        outdir: Run directory.
        info: Entries of `run.json`: the result of `run_info`, "steps", "step_offset" (the step at which
            training starts), and "items_on_disk" (the number of items in each replay buffer on disk, keyed by name).
        writes: Object that handles failed writes and lists the files that could not be written. If the first write of
            `run.json` fails, an error is raised.
    """

    def __init__(self, outdir: str, info: Mapping[str, Any], writes: run_files.FailedWrites) -> None:
        self.path = os.path.join(outdir, run_files.RECORD)
        self.started, self.writes = time.monotonic(), writes
        parts = earlier_parts(outdir) if info["step_offset"] else []
        self.content: dict[str, Any] = {
            **info,
            "outdir": os.path.realpath(outdir),
            "resumed": None,
            **environment_record(),
            "start": _now(),
            "outcome": "running",
            "earlier_parts": [_with_masked_secrets(part) for part in parts],
        }
        self._write()

    def resumed(self, restored: Mapping[str, Any]) -> None:
        """Record the checkpoint from which the run resumes, and a flag that tells if the command line is unchanged.

        Args:
            restored: Result of `Checkpoint.restore`.
        """
        before = self.content["earlier_parts"][-1:] or [{}]
        names = ("command", "command_digest")
        self.content["resumed"] = dict(restored)
        self.content["same_command"] = all(before[0].get(name) == self.content.get(name) for name in names)
        self._renew()

    def finish(self, outcome: str, clock: Clock) -> None:
        """Record the end of the run.

        Args:
            outcome: Text that describes how the run ended.
            clock: Clock at the end of the run.
        """
        seconds = time.monotonic() - self.started
        self.content |= {
            "outcome": masked_text(outcome), "end": _now(), "seconds": seconds, "t": clock.t, "episodes": clock.episodes
        }  # fmt: skip
        if self.writes.unsaved_files:
            self.content["not_saved"] = self.writes.unsaved_files
        self._renew()

    def _renew(self) -> None:
        with self.writes.handling(run_files.RECORD):
            self._write()

    def _write(self) -> None:
        atomic_write(self.path, (json.dumps(self.content, indent=2, default=str) + "\n").encode(), durable=False)


def check_directory(outdir: Any) -> str:
    """Return the absolute path of a run directory.

    If this process repeats a part of a recorded run (see `debug.crash_replay`), return a different directory, so that
    the directory of the recorded run does not change.

    Raises:
        TypeError: If `outdir` is not a path.
        ValueError: If `outdir` is empty, or is a URL.
        NotADirectoryError: If `outdir` is the path of an existing file.
    """
    if not isinstance(outdir, str | bytes | os.PathLike):
        raise TypeError(f"outdir is {outdir!r:.80} ({type(outdir).__name__}), expected the path of a directory")
    if not os.fspath(outdir):
        raise ValueError(f"outdir is {outdir!r}, expected the path of a directory")
    refuse_url("outdir", outdir)
    if os.path.lexists(outdir) and not os.path.isdir(outdir):
        raise NotADirectoryError(f"outdir is {os.fspath(outdir)!r}, which is not a directory")
    path = os.path.abspath(os.fsdecode(outdir))  # valid even if the current directory changes
    request = rerun_request()
    return path if request is None else request.rerun_outdir


def is_url(path: Any) -> bool:
    """True for the URL of a storage, such as "s3://bucket/run". `pathlib.Path` makes "s3:/bucket/run" of it."""
    return isinstance(path, str | os.PathLike) and re.match(r"[A-Za-z][\w+.:-]+:/", os.fsdecode(path)) is not None


def refuse_url(name: str, path: Any) -> None:
    """Raise an error if a path is a URL, which the system would take for a folder with a name like "s3:".

    Args:
        name: Name of the argument in the error message.
        path: The path.

    Raises:
        ValueError: If it is a URL.
    """
    if is_url(path):
        raise ValueError(
            f"{name} is {masked_text(str(path))!r}, a URL, expected the path of a directory; train_agent, "
            "train_agent_batch, train_agent_offline and train_agent_distributed accept URLs, as strings"
        )


class _LogFile(logging.Handler):
    """Writes log messages to a file. The first failed write is logged to other handlers, and training continues."""

    def __init__(self, path: str, writes: run_files.FailedWrites, *, append: bool) -> None:
        super().__init__()
        self._file = AppendedFile(path, keep=None if append else 0)
        self.writes_to = (self._file,)
        writes.handle_writes_of([self], stops=False)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.append(f"{masked_text(self.format(record))}\n".encode(errors="backslashreplace"))
        except Exception:  # the arguments of the message cannot be formatted
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def log_file(outdir: str, writes: run_files.FailedWrites, *, append: bool) -> Iterator[None]:
    """Write the log messages of this library and of the run's logger to `run.log`. Secrets are masked.

    The log levels are not changed. Without a call such as `logging.basicConfig(level=logging.INFO)`, only warnings and
    errors are written. If the logger has no other handler, warnings and errors are also printed to stderr. Python does
    this for loggers without handlers.
    """
    logger = writes.logger
    handler = _LogFile(os.path.join(outdir, "run.log"), writes, append=append)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package = logging.getLogger("pfrl_like")
    loggers = [package] if _is_below(logger, package) else [package, logger]
    last_resort = [logging.lastResort] if logging.lastResort is not None else []
    pairs = [(each, one) for each in loggers for one in [handler, *([] if each.hasHandlers() else last_resort)]]
    for each, one in pairs:
        each.addHandler(one)
    try:
        yield
    finally:
        for each, one in pairs:
            each.removeHandler(one)
        handler.close()


def _is_below(logger: logging.Logger | None, ancestor: logging.Logger) -> bool:
    """True if messages of `logger` reach the handlers of `ancestor`."""
    while logger is not None and logger is not ancestor:
        logger = logger.parent if logger.propagate else None
    return logger is not None


def _with_masked_secrets(part: dict[str, Any]) -> dict[str, Any]:
    """Return the record of an earlier part with masked secrets. Older versions of this library did not mask them."""
    commands = {name: part[name] for name in ("command", "started_as") if isinstance(part.get(name), list)}
    masked: dict[str, Any] = {name: masked_command(command) for name, command in commands.items()}
    if masked.get("command", []) != commands.get("command", []):
        masked = {"command_digest": command_digest(tuple(commands["command"])), **masked}
    return {**part, **masked}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
