"""The disks that a power cut may leave: what was not synced is there, in part, as zeros or not at all.

The model is that of journaling file systems at their weakest (Pillai et al. 2014, OSDI): the content of a file survives
from its last fsync on, the names of a folder from the last fsync of the folder on; anything later may have arrived or
not, each file and each name by itself.
"""

import contextlib
import itertools
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

#: The calls that change a disk, or make a change last.
CALLS = ("open", "write", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "ftruncate", "posix_fallocate")

Names = dict[str, int]


class Moment(NamedTuple):
    """What there is at one time; files and folders go by numbers that are never given twice.

    Attributes:
        names: By folder, what has which name now.
        synced_names: The same as of the last fsync of the folder.
        content: By file, what it holds now.
        synced: The same as of its last fsync.
    """

    names: dict[int, Names]
    synced_names: dict[int, Names]
    content: dict[int, bytes]
    synced: dict[int, bytes]


class LossyDisk:
    """Looks at a folder after every call that may change it; everything that is there at the start has lasted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._lock = folder, threading.RLock()
        self.moments: list[Moment] = []
        self._number: dict[int, int] = {}  # of an inode, as long as it has a name
        self._count = itertools.count()
        self._synced: dict[int, bytes] = {}
        self._synced_names: dict[int, Names] = {}
        self._look()
        self._synced = dict(self._content)
        self._synced_names = {folder: dict(names) for folder, names in self._names.items()}
        self._keep()

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record what happens meanwhile."""
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, self._watched(name, getattr(os, name)))
            yield
        self._look()
        self._keep()

    def _watched(self, name: str, function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:  # files may be synced side by side
                result = function(*arguments, **options)
                self._look()
                if name == "fsync":
                    self._sync(os.fstat(arguments[0]).st_ino)
                self._keep()
                return result

        return call

    def _sync(self, inode: int) -> None:
        number = self._number.get(inode)
        if number in self._names:
            self._synced_names[number] = dict(self._names[number])
        elif number is not None:
            self._synced[number] = self._content[number]

    def _look(self) -> None:
        """Read the whole folder, memory-mapped files and what other libraries write included."""
        self._names: dict[int, Names] = {}
        self._content: dict[int, bytes] = {}
        seen: dict[int, int] = {}
        self.root = self._visit(self.folder, seen)
        self._number = seen

    def _visit(self, path: Path, seen: dict[int, int]) -> int:
        inode = path.stat().st_ino
        number = seen[inode] = self._number[inode] if inode in self._number else next(self._count)
        if path.is_dir():
            self._names[number] = {entry.name: self._visit(entry, seen) for entry in sorted(path.iterdir())}
        else:
            self._content[number] = path.read_bytes()
        return number

    def _keep(self) -> None:
        before = self.moments[-1] if self.moments else Moment({}, {}, {}, {})
        names, content = before.names | self._names, before.content | self._content
        now = Moment(names, dict(self._synced_names), content, dict(self._synced))
        if not self.moments or now != before:
            self.moments.append(now)

    def disks(self, rng: random.Random, draws: int) -> Iterator[dict[str, bytes]]:
        """Disks that a power cut at some moment leaves, by the names of their files, each once.

        Args:
            rng: Draws what arrives.
            draws: Disks to draw at each moment, beside those where all of one kind arrives or does not.
        """
        seen = set()
        for moment in self.moments:
            plain = [(names, content) for names in (0.0, 1.0) for content in (0.0, 1.0)]
            for names, content in [*plain, *[(0.5, 0.5)] * draws]:
                disk = self._disk(moment, rng, names, content)
                key = tuple(sorted(disk.items()))
                if key not in seen:
                    seen.add(key)
                    yield disk

    def _disk(self, moment: Moment, rng: random.Random, names: float, content: float) -> dict[str, bytes]:
        """A disk where names and contents that were not synced are new with these probabilities."""
        files: dict[str, bytes] = {}

        def fill(folder: int, prefix: str) -> None:
            old, new = moment.synced_names.get(folder, {}), moment.names.get(folder, {})
            for name in sorted({*old, *new}):
                number = (new if rng.random() < names else old).get(name)
                if number in moment.names:
                    fill(number, f"{prefix}{name}/")
                elif number is not None:
                    files[prefix + name] = survived(number)

        def survived(number: int) -> bytes:
            now, before = moment.content[number], moment.synced.get(number, b"")
            if now == before or rng.random() < content:
                return now
            return rng.choice(partly(before, now))

        fill(self.root, "")
        return files


def partly(before: bytes, now: bytes) -> list[bytes]:
    """What a file may hold when not all has arrived; what was synced and not written since stays."""
    kept, half = len(before), (len(before) + len(now)) // 2
    torn = now[: kept // 2] + before[kept // 2 :]
    return [before, before + bytes(max(0, len(now) - kept)), before + now[kept:half], torn + now[kept:]]


def lay(files: dict[str, bytes], folder: Path) -> None:
    """Write a disk into a folder."""
    folder.mkdir()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
