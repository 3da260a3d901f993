"""After a power cut at any moment of a save, what is loaded is the old state or the new; once it is over, the new.

The disks that a power cut may leave: what was not synced is there, in part, as zeros or not at all.

The model is that of journaling file systems at their weakest (Pillai et al. 2014, OSDI): the content of a file survives
from its last fsync on, the names of a folder from the last fsync of the folder on; anything later may have arrived or
not, each file and each name by itself.
"""

import contextlib
import itertools
import os
import random
import shutil
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("h5py")

from lab.subjects import BUFFERS, SLOW, WRITERS, Subject  # noqa: E402

from pfrl_like.errors import CheckpointError  # noqa: E402

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


# What is loaded from them

#: The record of a run is told not to be durable; an evaluation is written as a model is, and buffers are as a buffer.
SUBJECTS = [name for name in WRITERS if name not in ("run", *SLOW, *(f"{kind} buffer" for kind in BUFFERS))]


def states(subject: Subject, disks: list[dict[str, bytes]], folder: Path) -> set[int | None]:
    """The numbers that are loaded from disks; None where nothing is."""
    found: set[int | None] = set()
    for disk in disks:
        shutil.rmtree(folder, ignore_errors=True)
        lay(disk, folder)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the save before is used
                found.add(subject.read(folder))
        except CheckpointError:
            found.add(None)
    return found


@pytest.mark.representatives(3)
@pytest.mark.parametrize(("draws", "most"), [(1, 8), pytest.param(40, 100_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SUBJECTS)
def test_a_power_cut_leaves_the_old_state_or_the_new_one(name, draws, most, tmp_path):
    subject, rng = WRITERS[name], random.Random(0)
    disk, copy = tmp_path / "disk", tmp_path / "copy"
    disk.mkdir()
    subject.write(disk, 0)
    lossy = LossyDisk(disk)
    with lossy.recording():
        subject.write(disk, 1)
    assert len(lossy.moments) > 3
    disks = list(lossy.disks(rng, draws))
    assert states(subject, [disks[0], disks[-1], *rng.sample(disks, min(most, len(disks)))], copy) == {0, 1}
    lossy.moments = lossy.moments[-1:]
    assert states(subject, list(lossy.disks(rng, draws)), copy) == {1}


def test_a_power_cut_leaves_a_new_directory_whole_or_none(tmp_path):
    subject, rng = WRITERS["agent"], random.Random(0)
    (tmp_path / "disk").mkdir()
    lossy = LossyDisk(tmp_path / "disk")
    with lossy.recording():
        subject.write(tmp_path / "disk", 1)
    disks = list(lossy.disks(rng, 1))
    there = [disk for disk in disks if any(name.startswith("agent/") for name in disk)]
    assert 0 < len(there) < len(disks)
    assert states(subject, there, tmp_path / "copy") == {1}


def test_the_model_loses_what_is_not_synced(tmp_path):
    (tmp_path / "x").write_bytes(b"0000")
    lossy = LossyDisk(tmp_path)
    with lossy.recording():
        (tmp_path / "x").write_bytes(b"11112222")
        (tmp_path / "y").touch()
    disks = list(lossy.disks(random.Random(0), 100))
    assert {disk["x"] for disk in disks} == {b"0000", b"0000\0\0\0\0", b"000022", b"11002222", b"11112222"}
    assert {"y" in disk for disk in disks} == {False, True}
