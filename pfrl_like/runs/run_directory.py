"""`run.json` and `run.log`: what ran, what was said, how it ended; parts of an earlier run are set aside."""

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
from pfrl_like.processes.rerun_order import ordered
from pfrl_like.runs import run_files
from pfrl_like.runs.environment_record import circumstances
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.secrets import command_digest, masked_command, masked_text
from pfrl_like.storage import AppendedFile, atomic_write, make_directory
from pfrl_like.storage.atomic import named_errors, names_in

#: What a run writes under fixed names: its training, and its evaluation.
TRAINING = (
    "run.log", run_files.METRICS.name, run_files.EPOCHS.name, run_files.RECORD, "learning_curve.svg", "report.html",
    "trace.bin", "trace.jsonl", "checkpoint_buffers",
)  # fmt: skip
EVALUATION = (run_files.SCORES.name, "best")
TABLES = {table.name: table for table in (run_files.METRICS, run_files.EPOCHS, run_files.SCORES)}
_ALSO = re.compile(r"profile-\d+\.out|beyond-\d+-.+")
_OF_A_STEP = re.compile(r"(?:bad_batch-)?(\d+)(?:_checkpoint|_finish|_except|_previous|\.pt)|crash-(\d+)")


class Progress(NamedTuple):
    """How far the earlier parts of a run had come.

    Attributes:
        episodes: Training episodes that had ended.
        seconds: Time it had taken.
    """

    episodes: int
    seconds: float


def progress_of(outdir: str, step_offset: int) -> Progress:
    """How far the run in a directory had come by a step, by the rows of its tables; no way for one that starts at 0."""

    def largest(table: run_files.Table, column: str, none: float = 0.0) -> float:
        rows = zip(*run_files.column_of(outdir, table, column), strict=True)
        return max((value for t, value in rows if t <= step_offset), default=none)

    if step_offset == 0:
        return Progress(0, 0.0)
    episodes = max(largest(run_files.METRICS, "episode", -1) + 1, largest(run_files.SCORES, "episodes"))
    return Progress(int(episodes), max(largest(run_files.METRICS, "elapsed"), largest(run_files.SCORES, "elapsed")))


def earlier_parts(outdir: str) -> list[dict[str, Any]]:
    """The records of the parts that a run in a directory has had so far, the first one first.

    They are the first and as many of the newest as half of a record has room for; the one that comes after others that
    are left out tells how many.
    """
    last = run_files.record_of(outdir)
    if not last:
        return []
    if last.get("outcome") == "running":  # or it would have said something else
        last["outcome"] = "broken off"
    every: list[dict[str, Any]] = [*last.pop("earlier_parts", []), last]
    first, parts = every[0], every[1:]
    sizes = itertools.accumulate(len(json.dumps(part, indent=2)) for part in reversed(parts))
    fitting = sum(size <= run_files.LARGEST_RECORD // 2 for size in sizes)
    too_many = max(len(parts) - max(fitting, 1), 0)
    left_out = too_many + sum(part.get(run_files.PARTS_LEFT_OUT, 0) for part in parts[: too_many + 1])
    kept = parts[too_many:]
    return [first, *([kept[0] | {run_files.PARTS_LEFT_OUT: left_out}, *kept[1:]] if left_out else kept)]


def set_aside(
    outdir: str,
    step_offset: int,
    logger: logging.Logger,
    *,
    training: bool = True,
    evaluation: bool = True,
    tensorboard: bool = True,
    in_vain: bool = False,
) -> None:
    """Move what a run does not go on from into a folder in its directory; nothing is deleted.

    Of a run that begins at step 0 that is all that an earlier one left, and the folder is `earlier-<its start>`. Of one
    that goes on it is what lies beyond its first step: rows of the tables, agents, and `best` if the best score came
    later; the folder is `beyond-<step_offset>-<start of the part before>`. A table that is damaged goes there as it is,
    and the run goes on with the lines of it that can be read.

    Args:
        outdir: Run directory; it need not exist.
        step_offset: Step at which the run starts.
        logger: Told if there was anything.
        training: Whether what training wrote is meant.
        evaluation: Whether what evaluation wrote is meant.
        tensorboard: Whether files for TensorBoard are meant; those of a run that goes on stay.
        in_vain: Whether the run was to go on from a checkpoint, of which there is none.

    Raises:
        CheckpointError: If something cannot be moved; a further start does the rest.
    """
    present = set(names_in(outdir)) if os.path.isdir(outdir) else set()
    files = present & {*(TRAINING if training else ()), *(EVALUATION if evaluation else ())}
    agents = {name: int(match[1] or match[2]) for name in present if training and (match := _OF_A_STEP.fullmatch(name))}
    rests: dict[str, _Parted] = {}
    if step_offset == 0:
        moved = {*files, *agents, *(name for name in present if training and _ALSO.fullmatch(name))}
        moved |= {name for name in present if tensorboard and _is_of_tensorboard(name)}
    else:
        moved = {name for name, step in agents.items() if step > step_offset}
        tables = {name: _split(os.path.join(outdir, name), step_offset) for name in files & {*TABLES}}
        rests = {name: table for name, table in tables.items() if table.beyond or table.n_damaged}
        if "best" in files and run_files.SCORES.name in rests and _best_came_later(outdir, step_offset):
            moved.add("best")
    if not moved and not rests:
        return
    folder = _folder(outdir, f"beyond-{step_offset}" if step_offset else "earlier", {*moved, *rests})
    # If this is broken off, the next start does the rest: `run.json` names the folder, and the tables tell what has to
    # move, so they come last.
    for name in sorted(moved, key=lambda name: (name == run_files.RECORD, name)):
        with named_errors(os.path.join(outdir, name), "set aside"):
            os.rename(os.path.join(outdir, name), os.path.join(folder, name))
    for name, table in rests.items():
        path, kept = (os.path.join(place, name) for place in (outdir, folder))
        if table.n_damaged:
            _link(path, kept)
            told = "%s has damaged lines (%d), which are left out or mended; the file as it was is %s"
            logger.warning(told, path, table.n_damaged, kept)
        else:
            atomic_write(kept, run_files.encoded([table.header, *table.beyond]))
        atomic_write(path, run_files.encoded([table.header, *table.kept]))
    if not moved and not any(table.beyond for table in rests.values()):
        return
    told = "what an earlier run had left is now in %s; to go on with that run, give resume=True, or the step_offset"
    if step_offset:
        told = f"what the run had left beyond step {step_offset:,} is now in %s"
    elif in_vain:
        told = "no checkpoint was saved to its end, so that the run begins anew; what it had left is now in %s"
    follows = not training and not present.isdisjoint(TRAINING)  # training will tell in a moment
    logger.log(logging.INFO if follows else logging.WARNING, told, folder)


def _is_of_tensorboard(name: str) -> bool:
    """Whether a file for TensorBoard is an earlier run's: of this process it may also be the user's, and open."""
    from_here = f".{os.getpid()}." in name and not name.endswith(run_files.EVENTS_OF_A_RUN)
    return name.startswith("events.out.tfevents.") and not from_here


class _Parted(NamedTuple):
    """The lines of a table: those up to some step, those beyond it, and how many cannot be read."""

    header: str
    kept: list[str]
    beyond: list[str]
    n_damaged: int


def _split(path: str, step_offset: int) -> _Parted:
    """Split a table whose first column is the step; a last line without an end is torn and not kept."""
    lines, torn = run_files.lines_of(path)
    whole = run_files.readable(lines, TABLES[os.path.basename(path)])
    kept: list[str] = []
    beyond: list[str] = []
    for line in whole[1:]:
        step = re.match(r"\d+", line)
        (kept if step is not None and int(step[0]) <= step_offset else beyond).append(line)
    too_long = sum(len(line) >= run_files.LONGEST_LINE for line in torn)
    n_damaged = len(lines) - len(whole) + (whole[:1] not in ([], lines[:1])) + too_long
    return _Parted("".join(whole[:1]), kept, beyond + torn, n_damaged)


def _link(path: str, kept: str) -> None:
    """Give a file another name, which stays when another file takes the place of the first."""
    with named_errors(path, "set aside"):
        try:
            os.link(path, kept)
        except OSError:  # of file systems without links
            os.rename(path, kept)


def _best_came_later(outdir: str, step_offset: int) -> bool:
    columns = run_files.column_of(outdir, run_files.SCORES, "mean")
    rows = [(score, -step) for step, score in zip(*columns, strict=True) if math.isfinite(score)]
    return bool(rows) and -max(rows)[1] > step_offset  # of equal scores the first one counts


def _folder(outdir: str, kind: str, names: set[str]) -> str:
    """A folder, named after the start of the run that it is for, that holds nothing of these names."""
    started = str(run_files.record_of(outdir).get("start", ""))[:19]
    start = re.sub(r"[^0-9T]", "", started) or time.strftime("%Y%m%dT%H%M%S")
    folder, number = os.path.join(outdir, f"{kind}-{start}"), 1
    while any(os.path.lexists(os.path.join(folder, name)) for name in names):
        number += 1
        folder = os.path.join(outdir, f"{kind}-{start}-{number}")
    make_directory(folder)
    return folder


class RunRecord:
    """Writes `run.json` when a run begins and again when it ends.

    The records of the parts before, if the run goes on, are kept in it as "earlier_parts". Secrets in command lines and
    in the texts of errors are masked.

    Args:
        outdir: Run directory.
        agent: Its class is recorded.
        env: Its specification is recorded, if it has one.
        steps: Step at which training is to end; None if nobody knows.
        step_offset: Step at which it starts.
        evaluator: The environment it evaluates in is recorded.
        items_on_disk: How many items replay buffers hold that outlast their process, by name.
        writes: Decides what becomes of a failure after the beginning, and knows what the directory lacks.
        source: Where training comes from; the reward convention of its dataset is recorded, if it has one.
    """

    def __init__(
        self,
        outdir: str,
        *,
        agent: Any,
        env: Any,
        steps: int | None,
        step_offset: int,
        evaluator: Any,
        items_on_disk: Mapping[str, int],
        writes: run_files.FailedWrites,
        source: Any,
    ) -> None:
        self.path = os.path.join(outdir, run_files.RECORD)
        self.started, self.writes = time.monotonic(), writes
        self.content: dict[str, Any] = {
            "agent": type(getattr(agent, "agent", agent)).__name__,
            "env": str(getattr(getattr(env, "spec", None), "id", None) or type(env).__name__),
            "eval_env": getattr(evaluator, "env_choice", None),
            "steps": steps,
            "step_offset": step_offset,
            "outdir": os.path.realpath(outdir),
            "items_on_disk": dict(items_on_disk),
            "resumed": None,
            **logged_convention(source),
            **circumstances(),
            "device": str(getattr(agent, "device", "cpu")),
            "start": _now(),
            "outcome": "running",
            "earlier_parts": [_without_secrets(part) for part in earlier_parts(outdir)] if step_offset else [],
        }
        self._write()

    def resumed(self, how: Mapping[str, Any]) -> None:
        """Add which checkpoint the run goes on from, whether it does so exactly, and whether the command is the same.

        Args:
            how: What `Checkpoint.restore` gave.
        """
        before = self.content["earlier_parts"][-1:] or [{}]
        names = ("command", "command_digest")
        self.content["resumed"] = dict(how)
        self.content["same_command"] = all(before[0].get(name) == self.content.get(name) for name in names)
        self._renew()

    def finish(self, outcome: str, clock: Clock) -> None:
        """Add how the run ended.

        Args:
            outcome: In words.
            clock: Where it ended.
        """
        seconds = time.monotonic() - self.started
        self.content |= {
            "outcome": masked_text(outcome), "end": _now(), "seconds": seconds, "t": clock.t, "episodes": clock.episodes
        }  # fmt: skip
        if self.writes.lacking:
            self.content["not_saved"] = self.writes.lacking
        self._renew()

    def _renew(self) -> None:
        with self.writes.told(run_files.RECORD):
            self._write()

    def _write(self) -> None:
        atomic_write(self.path, (json.dumps(self.content, indent=2, default=str) + "\n").encode(), durable=False)


def check_directory(outdir: Any) -> str:
    """The path of a run directory as text; of a program that was started again, that of what it writes meanwhile.

    Raises:
        TypeError: If it is none.
        ValueError: If it is empty.
        NotADirectoryError: If something else has this name.
    """
    if not isinstance(outdir, str | bytes | os.PathLike):
        raise TypeError(f"outdir is {outdir!r:.80} ({type(outdir).__name__}), expected the path of a directory")
    if not os.fspath(outdir):
        raise ValueError(f"outdir is {outdir!r}, expected the path of a directory")
    if os.path.lexists(outdir) and not os.path.isdir(outdir):
        raise NotADirectoryError(f"outdir is {os.fspath(outdir)!r}, which is no directory")
    path = os.path.abspath(os.fsdecode(outdir))  # whatever directory an environment changes to
    order = ordered()
    return path if order is None else order.diverted


class _LogFile(logging.Handler):
    """Writes what is logged to a file; a failure, which is no reason to end training, is told to others once."""

    def __init__(self, path: str, writes: run_files.FailedWrites, *, append: bool) -> None:
        super().__init__()
        self._file = AppendedFile(path, keep=None if append else 0)
        self.writes_to = (self._file,)
        writes.govern([self], stops=False)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._file.append(f"{masked_text(self.format(record))}\n".encode(errors="backslashreplace"))
        except Exception:  # of arguments that cannot be formatted
            self.handleError(record)

    def close(self) -> None:
        self._file.close()
        super().close()


@contextlib.contextmanager
def log_file(outdir: str, writes: run_files.FailedWrites, *, append: bool) -> Iterator[None]:
    """Keep in `run.log` what is logged in a run: by this library, and to the logger of the run; secrets are masked.

    Levels are the user's business: without `logging.basicConfig(level=logging.INFO)` or the like, only warnings and
    errors come by. These also go to stderr then, where they would go if there were no file.
    """
    logger = writes.logger
    handler = _LogFile(os.path.join(outdir, "run.log"), writes, append=append)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    package = logging.getLogger("pfrl_like")
    heard = [package] if _is_below(logger, package) else [package, logger]
    last_resort = [logging.lastResort] if logging.lastResort is not None else []
    added = [(each, one) for each in heard for one in [handler, *([] if each.hasHandlers() else last_resort)]]
    for each, one in added:
        each.addHandler(one)
    try:
        yield
    finally:
        for each, one in added:
            each.removeHandler(one)
        handler.close()


def _is_below(logger: logging.Logger | None, ancestor: logging.Logger) -> bool:
    """Whether what is logged to `logger` reaches the handlers of `ancestor`."""
    while logger is not None and logger is not ancestor:
        logger = logger.parent if logger.propagate else None
    return logger is not None


def _without_secrets(part: dict[str, Any]) -> dict[str, Any]:
    """The record of an earlier part, which a version that masked nothing may have written."""
    commands = {name: part[name] for name in ("command", "started_as") if isinstance(part.get(name), list)}
    masked: dict[str, Any] = {name: masked_command(command) for name, command in commands.items()}
    if masked.get("command", []) != commands.get("command", []):
        masked = {"command_digest": command_digest(tuple(commands["command"])), **masked}
    return {**part, **masked}


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
