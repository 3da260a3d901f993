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
LOSSES = "losses.json"
#: Suffix of the TensorBoard files that a runner writes.
RUN_EVENTS_SUFFIX = ".run"
#: `run.json` contains a record of each earlier part of the run (from one start or resume to the next). If some records
#: are omitted, the record after them has this key. Its value is the number of omitted records.
PARTS_LEFT_OUT = "parts_left_out_before"
MAX_RECORD_BYTES = 1 << 20  # maximum size of run.json in bytes; the file contains the records of all earlier parts
MAX_LINE_LENGTH = 1 << 20  # maximum length of a line of a table in characters
_NOT_UTF8 = re.compile("[\ud800-\udfff]")  # characters that stand for bytes that are not UTF-8
_LOGGER = logging.getLogger(__name__)


class Table(NamedTuple):
    """A table in a run directory.

    Attributes:
        name: File name.
        delimiter: Delimiter of the columns.
        step: Name of the first column, which contains the step of each row.
        numbers: Names of other columns that contain numbers. A file need not have all of these columns.
    """

    name: str
    delimiter: str
    step: str
    numbers: tuple[str, ...]


METRICS = Table("metrics.csv", ",", "step", ("elapsed", "episode", "return"))
EPOCHS = Table("epochs.csv", ",", "step", ("elapsed",))
SCORES = Table("scores.txt", "\t", "steps", ("episodes", "elapsed", "mean"))


def column_of(outdir: str, table: Table, name: str) -> Curve:
    """Return the steps and values of a column, without rows that have no value; empty if there is no such table.

    Damaged lines and an incomplete last line are skipped.

    Args:
        outdir: Run directory.
        table: The table.
        name: Name of a column of numbers.
    """
    path = os.path.join(outdir, table.name)
    if not os.path.exists(path):
        return [], []
    rows = csv.DictReader(valid_lines(lines_of(path)[0], table), delimiter=table.delimiter)
    cells = [(row[table.step], row[name]) for row in rows if row.get(name) not in (None, "")]
    return [float(step) for step, _ in cells], [float(value) for _, value in cells]


def lines_of(path: str) -> tuple[list[str], list[str]]:
    """Return two lists: the complete lines of a table, and the incomplete last line, if there is one.

    A killed process may leave an incomplete last line. `encode_lines` converts the lines back to bytes, even if a line
    is not valid UTF-8. Reading stops at a line of more than 2**20 characters, because no table has such a line.
    """
    lines: list[str] = []
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        while line := file.readline(MAX_LINE_LENGTH):
            lines.append(line)
            if not line.endswith(("\n", "\r")):
                break
    n_complete = len(lines) - (bool(lines) and not lines[-1].endswith("\n"))
    return lines[:n_complete], lines[n_complete:]


def valid_lines(lines: Sequence[str], table: Table) -> list[str]:
    """Return the undamaged lines of a table, starting with the header.

    If the header is damaged and the table has rows, the header is repaired. If the header is damaged and the table has
    no rows, the result is empty.
    """
    rows = [_cells(line, table) for line in lines]
    header = _names(rows, table)
    if not header:
        return []
    numbers = [header.index(name) for name in (table.step, *table.numbers) if name in header]

    def is_whole(line: str, row: list[str]) -> bool:
        fits = len(row) == len(header) and re.fullmatch(r"\d+", row[0]) is not None and not _NOT_UTF8.search(line)
        return fits and all(row[i] == "" or _is_number(row[i]) for i in numbers)

    first = lines[0] if header == rows[0] else _line(header, table, lines[-1])
    return [first, *(line for line, row in zip(lines[1:], rows[1:], strict=True) if is_whole(line, row))]


def _names(rows: Sequence[list[str]], table: Table) -> list[str]:
    """Return the column names of a table; empty if the header is damaged and no row shows the number of columns.

    A damaged name is replaced by the standard name of the column, or by the number of the column.
    """
    names = rows[0] if rows else []
    bad = {i for i, name in enumerate(names) if _is_number(name) or not name.isprintable()}
    widths = Counter(len(row) for row in rows[1:])
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    if names[:1] == [table.step] and not bad and (len(names) in widths or count < 2):
        return names
    if width < 2:
        return []
    standard = dict(enumerate((table.step, *table.numbers)))
    if len(names) == width:
        bad.add(0)
        return [standard.get(i, f"column{i}") if i in bad else name for i, name in enumerate(names)]
    return [standard.get(i, f"column{i}") for i in range(width)]  # a delimiter or the line end is damaged


def _line(header: Sequence[str], table: Table, reference_line: str) -> str:
    """Return a header as a line, with the same line end as `reference_line`."""
    text = io.StringIO()
    end = "\r\n" if reference_line.endswith("\r\n") else "\n"
    csv.writer(text, delimiter=table.delimiter, lineterminator=end).writerow(header)
    return text.getvalue()


def _cells(line: str, table: Table) -> list[str]:
    """Return the cells of one line; empty if the line cannot be parsed."""
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


def encode_lines(lines: Iterable[str]) -> bytes:
    """Convert lines that `lines_of` returned to bytes."""
    return "".join(lines).encode(errors="surrogateescape")


def record_of(outdir: str) -> dict[str, Any]:
    """Return the content of `run.json`; empty if the file is missing or cannot be read."""
    try:
        record = json.loads(read_bounded(os.path.join(outdir, RECORD), MAX_RECORD_BYTES).decode())
    except (CheckpointError, ValueError, RecursionError):
        return {}
    parts = record.get("earlier_parts", []) if type(record) is dict else None
    return record if type(parts) is list and all(type(part) is dict for part in parts) else {}


class FailedWrites:
    """Handles failed writes. Depending on `stops`, the first failure ends training or is logged, once per file.

    Args:
        logger: Logger that gets the failures.
        stops: True if the first failure ends training. Failures after the end of training are only logged.

    Attributes:
        unsaved_files: Errors of the files whose last write failed, keyed by file name.
        ended_by: Error that ended training, or None.
    """

    has_no_rng = True  # contains no random generators, see `random_streams.reachable`

    def __init__(self, logger: logging.Logger, *, stops: bool) -> None:
        self.logger, self.stops = logger, stops
        self.unsaved_files: dict[str, str] = {}
        self.ended_by: BaseException | None = None
        self._files: list[Any] = []
        self._names: set[str] = set()  # files whose failure was logged

    def handle_writes_of(self, objects: Sequence[Any], *, stops: bool = True) -> None:
        """Handle failed writes of the files in the attribute `writes_to` of each object that has this attribute.

        Args:
            objects: Loggers, callbacks and other objects.
            stops: True if a failure of these files may end training.
        """
        tuples = (getattr(each, "writes_to", None) for each in objects)
        # A `Mock` object has every attribute, but `writes_to` is then not a tuple.
        files = [file for several in tuples if isinstance(several, tuple) for file in several]
        for file in files:
            file.error_context = partial(self.handling, stops=stops)
        self._files += files

    def push(self) -> None:
        """Write the buffered content of all files.

        Raises:
            CheckpointError: If a file cannot be written and this ends training.
        """
        for file in self._files:
            file.push()

    @contextlib.contextmanager
    def handling(self, name: str, *, stops: bool = True) -> Iterator[None]:
        """Context manager that handles a failed write of a file inside the context.

        Args:
            name: Name of the file in log messages.
            stops: True if a failure may end training.

        Raises:
            CheckpointError: If the file cannot be written and this ends training.
        """
        try:
            yield
        except CheckpointError as error:
            if stops and self.stops and self.ended_by in (None, error):
                self.ended_by = error
                self._names.add(name)
                raise
            self.unsaved_files[name] = masked_text(str(error))
            if name not in self._names:
                self._names.add(name)  # add it before logging, which may fail, too
                self.logger.error("%s could not be saved: %s", name, error)
        else:
            self.unsaved_files.pop(name, None)


#: Run directories that the current thread has locked.
_LOCKED = threading.local()


@contextlib.contextmanager
def directory_lock(outdir: str) -> Iterator[None]:
    """Lock a run directory against other writers. The directory is created if it does not exist.

    The thread that has locked the directory, and the processes that this thread starts, can lock the directory again.
    If the file system has no locks, a warning is logged.

    Raises:
        CheckpointError: If another process, or another thread of this process, has locked the directory. The message
            names the process and the time at which it started.
    """
    os.makedirs(outdir, exist_ok=True)
    path = os.path.realpath(outdir)
    locked: set[str] = vars(_LOCKED).setdefault("paths", set())
    if path in locked:
        yield
        return
    lock = _lock(path)
    locked.add(path)
    try:
        yield
    finally:
        locked.remove(path)
        if lock is not None:
            lock.release()


def _lock(path: str) -> WriterLock | None:
    """Return the lock; None in a child of the process that has the lock, and on a file system without locks."""
    parent = multiprocessing.parent_process()
    try:
        return WriterLock(path)
    except CheckpointError as error:
        if error.__cause__ is None:
            if parent is not None and parent.pid is not None and is_owned_by(path, parent.pid):
                return None
            raise
        _LOGGER.warning("%s: two runs that write to this directory at the same time would not be detected", error)
        return None
