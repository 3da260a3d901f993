"""Files of a run directory: their names, the lock against a second writer, and the handling of failed writes."""

import contextlib
import csv
import io
import json
import logging
import multiprocessing
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from pfrl_like.errors import CheckpointError
from pfrl_like.runs.secrets import masked_text
from pfrl_like.storage.atomic import read_bounded
from pfrl_like.storage.manifest import WriterLock, is_owned_by

Curve = tuple[Sequence[float], Sequence[float]]
RECORD = "run.json"
#: Suffix of the TensorBoard files that a runner writes.
EVENTS_OF_A_RUN = ".run"
#: Key in the record of a part: number of earlier parts whose records were left out before it.
PARTS_LEFT_OUT = "parts_left_out_before"
LARGEST_RECORD = 1 << 20  # bytes; the record holds the arguments and the earlier parts of a run
LONGEST_LINE = 1 << 20  # characters
_NO_TEXT = re.compile("[\ud800-\udfff]")  # bytes that are not UTF-8
_LOGGER = logging.getLogger(__name__)


class Table(NamedTuple):
    """A table in a run directory.

    Attributes:
        name: File name.
        delimiter: Delimiter of the columns.
        step: Name of the first column, which holds the step at which a row was written.
        numbers: Names of further columns that hold numbers; a file need not have all of them.
    """

    name: str
    delimiter: str
    step: str
    numbers: tuple[str, ...]


METRICS = Table("metrics.csv", ",", "step", ("elapsed", "episode", "return"))
EPOCHS = Table("epochs.csv", ",", "step", ("elapsed",))
SCORES = Table("scores.txt", "\t", "steps", ("episodes", "elapsed", "mean"))


def column_of(outdir: str, table: Table, name: str) -> Curve:
    """The steps and the numbers of a column, in the rows that have a value; empty if the table does not exist.

    Damaged lines are skipped, and so is a last line without an end.

    Args:
        outdir: Run directory.
        table: The table.
        name: One of its columns of numbers.
    """
    path = os.path.join(outdir, table.name)
    if not os.path.exists(path):
        return [], []
    rows = csv.DictReader(readable(lines_of(path)[0], table), delimiter=table.delimiter)
    cells = [(row[table.step], row[name]) for row in rows if row.get(name) not in (None, "")]
    return [float(step) for step, _ in cells], [float(value) for _, value in cells]


def lines_of(path: str) -> tuple[list[str], list[str]]:
    """The complete lines of a table, ends included, and its last line if that has no end.

    A killed process may leave an incomplete last line. `encoded` turns any of the lines back into its bytes, even those
    that are not text. Reading stops after a line of more than a mebibyte, which is not part of a table.
    """
    lines: list[str] = []
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        while line := file.readline(LONGEST_LINE):
            lines.append(line)
            if not line.endswith(("\n", "\r")):
                break
    whole = len(lines) - (bool(lines) and not lines[-1].endswith("\n"))
    return lines[:whole], lines[whole:]


def readable(lines: Sequence[str], table: Table) -> list[str]:
    """The undamaged lines of a table, the header first.

    A damaged header is repaired if there are rows; otherwise the result is empty.
    """
    rows = [_cells(line, table) for line in lines]
    header = _names(rows, table)
    if not header:
        return []
    numbers = [header.index(name) for name in (table.step, *table.numbers) if name in header]

    def is_whole(line: str, row: list[str]) -> bool:
        fits = len(row) == len(header) and re.fullmatch(r"\d+", row[0]) is not None and not _NO_TEXT.search(line)
        return fits and all(row[i] == "" or _is_number(row[i]) for i in numbers)

    first = lines[0] if header == rows[0] else _line(header, table, lines[-1])
    return [first, *(line for line, row in zip(lines[1:], rows[1:], strict=True) if is_whole(line, row))]


def _names(rows: Sequence[list[str]], table: Table) -> list[str]:
    """The names of a table's columns; empty if the header is damaged and there are no rows to infer it from.

    A name that cannot be read is replaced by the name that such a table has at this place, or by the column's number.
    """
    names = rows[0] if rows else []
    bad = {i for i, name in enumerate(names) if _is_number(name) or not name.isprintable()}
    widths = Counter(len(row) for row in rows[1:])
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    if names[:1] == [table.step] and not bad and (len(names) in widths or count < 2):
        return names
    if width < 2:
        return []
    known = dict(enumerate((table.step, *table.numbers)))
    if len(names) == width:
        bad.add(0)
        return [known.get(i, f"column{i}") if i in bad else name for i, name in enumerate(names)]
    return [known.get(i, f"column{i}") for i in range(width)]  # a delimiter or the line end is damaged


def _line(header: Sequence[str], table: Table, like: str) -> str:
    """A header as a line, with the same line end as another line."""
    text = io.StringIO()
    end = "\r\n" if like.endswith("\r\n") else "\n"
    csv.writer(text, delimiter=table.delimiter, lineterminator=end).writerow(header)
    return text.getvalue()


def _cells(line: str, table: Table) -> list[str]:
    """The cells of one line, parsed separately from other lines; empty if the line cannot be parsed."""
    try:
        return next(csv.reader([line], delimiter=table.delimiter, strict=True), [])
    except csv.Error:
        return []


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def encoded(lines: Iterable[str]) -> bytes:
    """The bytes of lines that `lines_of` returned."""
    return "".join(lines).encode(errors="surrogateescape")


def record_of(outdir: str) -> dict[str, Any]:
    """The `run.json` of the last run in a directory; empty if it is missing or cannot be read."""
    try:
        record = json.loads(read_bounded(os.path.join(outdir, RECORD), LARGEST_RECORD).decode())
    except (CheckpointError, ValueError, RecursionError):
        return {}
    parts = record.get("earlier_parts", []) if type(record) is dict else None
    return record if type(parts) is list and all(type(part) is dict for part in parts) else {}


class FailedWrites:
    """Handles failed writes: ends training on the first failure, or only logs the first failure of each file.

    Args:
        logger: Logger of the failures.
        stops: Whether the first failure ends training. Failures after training has ended, for any reason, are logged.

    Attributes:
        lacking: Reasons why files are missing from the run directory or incomplete at present, by name of the file.
        ended_by: The error that ended training; None for none.
    """

    is_elsewhere = True  # nothing in it draws random numbers, see `random_streams.reachable`

    def __init__(self, logger: logging.Logger, *, stops: bool) -> None:
        self.logger, self.stops = logger, stops
        self.lacking: dict[str, str] = {}
        self.ended_by: BaseException | None = None
        self._files: list[Any] = []
        self._names: set[str] = set()  # files whose failure was logged

    def govern(self, things: Sequence[Any], *, stops: bool = True) -> None:
        """Handle the failures of several things: of the files in their attribute `writes_to`, if they have it.

        Args:
            things: Loggers, callbacks and others.
            stops: Whether a failure of these files may end training.
        """
        named = (getattr(thing, "writes_to", None) for thing in things)
        files = [file for several in named if isinstance(several, tuple) for file in several]  # no mock's
        for file in files:
            file.told = partial(self.told, stops=stops)
        self._files += files

    def push(self) -> None:
        """Write the buffered content of all these files, as far as possible.

        Raises:
            CheckpointError: If a file cannot be written and that ends training.
        """
        for file in self._files:
            file.push()

    @contextlib.contextmanager
    def told(self, name: str, *, stops: bool = True) -> Iterator[None]:
        """A context manager to write a file in.

        Args:
            name: Name of the file in messages.
            stops: Whether a failure may end training.

        Raises:
            CheckpointError: If the file cannot be written and that ends training.
        """
        try:
            yield
        except CheckpointError as error:
            if stops and self.stops and self.ended_by in (None, error):
                self.ended_by = error
                self._names.add(name)
                raise
            self.lacking[name] = masked_text(str(error))
            if name not in self._names:
                self._names.add(name)  # before the message, since the log is a file, too
                self.logger.error("%s could not be saved: %s", name, error)
        else:
            self.lacking.pop(name, None)


#: Run directories that each thread has locked.
_HELD = threading.local()


@contextlib.contextmanager
def owned(outdir: str) -> Iterator[None]:
    """Lock a run directory against other writers; the directory is made if it is missing.

    The thread that holds the lock may take it again, and so may the processes that it starts, since they write for it.
    If the file system has no locks, a warning is logged.

    Raises:
        CheckpointError: If another process, or another thread of this one, writes there; the message says which, and
            since when.
    """
    os.makedirs(outdir, exist_ok=True)
    path = os.path.realpath(outdir)
    held: set[str] = vars(_HELD).setdefault("paths", set())
    if path in held:
        yield
        return
    lock = _lock(path)
    held.add(path)
    try:
        yield
    finally:
        held.remove(path)
        if lock is not None:
            lock.release()


def _lock(path: str) -> WriterLock | None:
    """The lock; None in a child of the process that holds it, and on a file system without locks."""
    parent = multiprocessing.parent_process()
    try:
        return WriterLock(path)
    except CheckpointError as error:
        if error.__cause__ is None:
            if parent is not None and parent.pid is not None and is_owned_by(path, parent.pid):
                return None
            raise
        _LOGGER.warning("%s: two runs there at a time would not be noticed", error)
        return None
