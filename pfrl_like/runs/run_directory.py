"""`run.json` and `run.log`: what ran, on what, what was said meanwhile, and how it ended."""

import contextlib
import datetime
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from pfrl_like.dataset.conventions import logged_convention
from pfrl_like.processes.rerun_order import ordered
from pfrl_like.runs.earlier_run import earlier_parts
from pfrl_like.runs.environment_record import circumstances
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_files import RECORD
from pfrl_like.runs.secrets import command_digest, masked_command, masked_text
from pfrl_like.runs.write_errors import FailedWrites
from pfrl_like.storage import AppendedFile, atomic_write


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
        items_on_disk: Mapping[str, int] = MappingProxyType({}),
        writes: FailedWrites,
        source: Any = None,
    ) -> None:
        self.path = os.path.join(outdir, RECORD)
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
        with self.writes.told(RECORD):
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

    def __init__(self, path: str, writes: FailedWrites, *, append: bool) -> None:
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
def log_file(outdir: str, writes: FailedWrites, *, append: bool) -> Iterator[None]:
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
