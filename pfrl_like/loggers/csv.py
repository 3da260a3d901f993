"""Metrics as a CSV file."""

import csv
import io
import logging
import os
import time
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from pfrl_like.runs.secrets import masked
from pfrl_like.storage import AppendedFile

_LOGGER = logging.getLogger(__name__)

#: The columns before those of the metrics.
_OWN = ["step", "elapsed"]
#: Seconds between writes to the file, so that short episodes do not wait for the disk.
FLUSH_INTERVAL = 1.0


class CSVLogger:
    """Writes a line for every call: step, seconds since the start, and the metrics.

    Args:
        path: The file; what it held is replaced.
        append: Whether to keep what it held and go on below.
        elapsed: Seconds that had passed before.

    Attributes:
        writes_to: The file, so that a runner can say what becomes of a failure.
    """

    def __init__(self, path: str | os.PathLike[str], *, append: bool = False, elapsed: float = 0.0) -> None:
        new = not (append and os.path.exists(path) and os.path.getsize(path))
        self._path, self._names = path, None if new else _columns_of(path)
        self._file = AppendedFile(path, keep=0 if new else None)
        self.writes_to = (self._file,)
        self._writer = csv.writer(SimpleNamespace(write=lambda text: self._file.hold(text.encode())))
        self._flushed = time.monotonic()
        self._start = self._flushed - elapsed

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Write a line; the first one of a file sets the columns. Secrets in texts are masked.

        Raises:
            ValueError: If the metrics have other names than the columns.
        """
        if self._names is None:
            self._names = [*metrics]
            self._writer.writerow([*_OWN, *metrics])
        elif metrics.keys() != set(self._names):
            raise ValueError(
                f"metrics has {sorted(metrics)}, expected {sorted(self._names)} as in the first line of {self._path}: "
                "what has others needs another directory"
            )
        now = time.monotonic()
        values = [masked(each, name) if isinstance(each := metrics[name], str) else each for name in self._names]
        self._writer.writerow([step, f"{now - self._start:.3f}", *values])
        if now - self._flushed >= FLUSH_INTERVAL:
            self.push()
            self._flushed = now

    def push(self) -> None:
        """Let the file hold all lines, as soon as it can."""
        self._file.push()

    def flush(self) -> None:
        """Let the file hold all lines.

        Raises:
            CheckpointError: If that cannot be.
        """
        self._file.flush()

    def saved_state(self) -> dict[str, Any]:
        """The seconds that have passed, and the metrics that the file has columns of."""
        return {"elapsed": time.monotonic() - self._start, "names": self._names}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on counting where `saved_state` was asked for; a first line that has been damaged since is mended."""
        self._start = time.monotonic() - state["elapsed"]
        names = state.get("names")
        if names and self._names and names != self._names and len(names) == len(self._names):
            told = "%s is damaged: its columns were %s and are called %s; its first line is written anew"
            _LOGGER.warning(told, self._path, ", ".join(names), ", ".join(self._names))
            self._names, header = names, io.StringIO()
            csv.writer(header).writerow([*_OWN, *names])
            self._file.flush()
            with open(self._path, "rb") as file:
                self._file.replace(header.getvalue().encode() + file.read().partition(b"\n")[2])

    def close(self) -> None:
        """Write the rest and close the file."""
        self._file.close()


def _columns_of(path: str | os.PathLike[str]) -> list[str]:
    """The metrics that a file has columns of."""
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))[len(_OWN) :]
