"""A queue that is also stored in a directory, so that a later process can continue it."""

import json
import os
from collections.abc import Iterable, Iterator
from logging import Logger
from pathlib import Path
from secrets import token_hex
from typing import Any

from pfrl_like.collections.random_access_queue import RandomAccessQueue
from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic_write, dump_json, make_directory, read_json
from pfrl_like.storage.journal import SYNCED, Journal, read_journal
from pfrl_like.storage.json_file import parse_json
from pfrl_like.utils.checks import check_counts, takes_integral_floats
from pfrl_like.utils.plain_values import from_json, to_json
from pfrl_like.utils.random import RandomSource

PathLike = str | os.PathLike[str]

_FORMAT = "pfrl_like queue"
_PROPERTIES = "queue.json"
_LARGEST_PROPERTIES = 1 << 16


class PersistentRandomAccessQueue:
    """`RandomAccessQueue` that stores every appended item in a directory. The items are in memory, too.

    When `append` returns, the item has been passed to the operating system, so that the end of the process does not
    destroy it. Several processes may append to one directory: each writes files of its own, and holds only its own new
    items in memory. The files are never read as pickles. Items that `popleft` or `maxlen` remove stay in the files. A
    persistent replay buffer (`replay_buffers.PersistentReplayBuffer`) is faster and smaller than a queue of
    transitions.

    Args:
        basedir: Directory of the queue. If it contains a queue, its newest `maxlen` items are loaded.
        maxlen: Maximum number of items in memory. If it is exceeded, the oldest items are removed. None if unbounded.
        ancestor: Directory of another queue, whose newest `maxlen` items are loaded first, before those in `basedir`.
            If it has fewer, those of its own ancestor come before them. It must be passed again whenever the queue in
            `basedir` is opened again. None for no other items.
        logger: Logger of the number of loaded items. If None, nothing is logged.

    Attributes:
        basedir: Directory of the queue.
        buffer: The items in memory.

    Raises:
        CheckpointError: If a directory contains no queue of this class, for instance one that PFRL saved, is damaged,
            or cannot be written.
        ValueError: If `maxlen` is below 1.
    """

    @takes_integral_floats
    def __init__(
        self, basedir: PathLike, maxlen: int | None, *, ancestor: PathLike | None = None, logger: Logger | None = None
    ) -> None:
        check_counts(optional=True, maxlen=maxlen)
        self.basedir = os.fspath(basedir)
        self.buffer: RandomAccessQueue[Any] = RandomAccessQueue(maxlen=maxlen)
        if ancestor is not None:
            self.buffer.extend(_items_with_ancestors(Path(ancestor), maxlen))
        folder = Path(basedir)
        if (folder / _PROPERTIES).exists() or (folder / "meta.pkl").exists():
            _properties(folder)  # checks the format
            self.buffer.extend(_items(folder))
        else:
            make_directory(self.basedir)
            origin = None if ancestor is None else os.path.abspath(ancestor)
            properties = {"format": _FORMAT, "ancestor": origin}
            atomic_write(folder / _PROPERTIES, dump_json(properties, folder, _LARGEST_PROPERTIES))
        self._journal: Journal | None = None
        if logger is not None:
            logger.info("%s: %d items are loaded", self.basedir, len(self.buffer))

    @property
    def maxlen(self) -> int | None:
        """Maximum number of items in memory; None if unbounded."""
        return self.buffer.maxlen

    def append(self, value: Any) -> None:
        """Add an item at the end, and store it.

        Args:
            value: Nested dicts, lists and tuples of None, numbers, strings, bytes, arrays and tensors.

        Raises:
            TypeError: If the item contains another type. Nothing is added.
            CheckpointError: If the item cannot be written. It is not added.
        """
        record = json.dumps({"item": to_json(value)}).encode()
        if self._journal is None or not self._journal.append([record]):
            self.close()
            folder = Path(self.basedir)
            # Another process may choose the same number.
            self._journal = Journal(str(folder / f"items.{len(_journals(folder)):06d}.{token_hex(4)}.journal"))
            if not self._journal.append([record]):
                raise CheckpointError(self._journal.path, f"cannot hold an item of {len(record):,} bytes")
        self.buffer.append(value)

    def extend(self, xs: Iterable[Any]) -> None:
        """Add items at the end, and store them."""
        for value in xs:
            self.append(value)

    def popleft(self) -> Any:
        """Remove the oldest item from memory and return it. It stays in the files.

        Raises:
            IndexError: If the queue is empty.
        """
        return self.buffer.popleft()

    def sample(self, n: int, rng: RandomSource = None) -> list[Any]:
        """Draw n items at distinct positions, uniformly.

        Args:
            n: Number of items.
            rng: NumPy generator; None uses the global NumPy stream.

        Raises:
            ValueError: If n is negative or larger than the queue.
        """
        return self.buffer.sample(n, rng)

    def close(self) -> None:
        """Write the items to the disk and close the file. A later `append` opens a new file."""
        if self._journal is not None:
            self._journal.mark()
            self._journal.sync()
            self._journal.close()
            self._journal = None

    def __len__(self) -> int:
        return len(self.buffer)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.buffer)

    def __getitem__(self, i: int) -> Any:
        return self.buffer[i]

    def __setitem__(self, i: int, x: Any) -> None:
        raise NotImplementedError("items of a persistent queue cannot be replaced, because the files only grow")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.basedir!r}, {len(self)} items, maxlen={self.maxlen})"


def _properties(folder: Path) -> dict[str, Any]:
    if (folder / "meta.pkl").exists():
        raise CheckpointError(folder, "contains a queue that PFRL saved as pickles, which this class does not read")
    properties = read_json(str(folder / _PROPERTIES), _LARGEST_PROPERTIES)
    if properties.get("format") != _FORMAT:
        raise CheckpointError(folder, f"is no queue: its format is {properties.get('format')!r:.80}")
    return properties


def _journals(folder: Path) -> list[Path]:
    return sorted(folder.glob("items.*.journal"))


def _items(folder: Path) -> Iterator[Any]:
    """Yield the items in a directory, oldest first."""
    for path in _journals(folder):
        for record in read_journal(str(path))[0]:
            if record != SYNCED:
                try:
                    yield from_json(parse_json(record, path)["item"])
                except (KeyError, ValueError) as error:
                    raise CheckpointError(path, f"is damaged: a record is no item ({error!s:.100})") from error


def _items_with_ancestors(folder: Path, maxlen: int | None) -> list[Any]:
    """Return the newest `maxlen` items of a directory and of its ancestors, oldest first."""
    newest: list[Any] = []
    seen: set[Path] = set()
    next_folder: Path | None = folder
    while next_folder is not None and next_folder not in seen and (maxlen is None or len(newest) < maxlen):
        seen.add(next_folder)
        properties = _properties(next_folder)
        newest = [*_items(next_folder), *newest]
        next_folder = Path(properties["ancestor"]) if properties["ancestor"] else None
    return newest if maxlen is None else newest[-maxlen:]
