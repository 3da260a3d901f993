"""What the tables and the record in a run directory are called, and how they are read."""

import csv
import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import read_bounded

Curve = tuple[Sequence[float], Sequence[float]]


class Table(NamedTuple):
    """A table in a run directory.

    Attributes:
        name: Its file.
        delimiter: What stands between its columns.
        step: Its first column, which tells when a row was written.
    """

    name: str
    delimiter: str
    step: str


METRICS = Table("metrics.csv", ",", "step")
EPOCHS = Table("epochs.csv", ",", "step")
SCORES = Table("scores.txt", "\t", "steps")
RECORD = "run.json"
#: What the name of a file for TensorBoard ends with that a runner has written.
EVENTS_OF_A_RUN = ".run"
#: In the record of a part: how many parts before it are named no longer.
PARTS_LEFT_OUT = "parts_left_out_before"
LARGEST_RECORD = 1 << 20  # bytes; it names the arguments and the earlier parts of a run


def column_of(outdir: str, table: Table, name: str) -> Curve:
    """The steps and the numbers of a column, in the rows that have it; nothing if there is no such table.

    A last line that has no end does not count.

    Raises:
        CheckpointError: If they are no numbers, or it is no table.
    """
    path = os.path.join(outdir, table.name)
    if not os.path.exists(path):
        return [], []
    try:
        rows = csv.DictReader(lines_of(path)[0], delimiter=table.delimiter)
        cells = [(row[table.step], row[name]) for row in rows if row.get(name) not in (None, "")]
        return [float(step) for step, _ in cells], [float(value) for _, value in cells]
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        raise CheckpointError(path, f"is damaged: {error!r:.200}") from error


def lines_of(path: str) -> tuple[list[str], list[str]]:
    """The lines of a table with their ends, and the last one if it has none: a process that is killed tears it.

    `encoded` gives back the bytes of any of them, also of those that are no text.
    """
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        lines = list(file)
    whole = len(lines) - (bool(lines) and not lines[-1].endswith("\n"))
    return lines[:whole], lines[whole:]


def encoded(lines: Iterable[str]) -> bytes:
    """The bytes of lines that `lines_of` gave."""
    return "".join(lines).encode(errors="surrogateescape")


def record_of(outdir: str) -> dict[str, Any]:
    """The `run.json` of the last run in a directory; empty if there is none that can be read."""
    try:
        record = json.loads(read_bounded(os.path.join(outdir, RECORD), LARGEST_RECORD).decode())
    except (CheckpointError, ValueError, RecursionError):
        return {}
    parts = record.get("earlier_parts", []) if type(record) is dict else None
    return record if type(parts) is list and all(type(part) is dict for part in parts) else {}
