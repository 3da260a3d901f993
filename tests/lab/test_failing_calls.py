"""The N-th system call of a save fails: what is loaded is the old state or the new one, and the next save succeeds."""

import errno
import gc
import itertools
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("h5py")

from lab.failing_calls import CALLS, ROOM, Fault  # noqa: E402
from lab.subjects import SLOW, WRITERS, Subject  # noqa: E402

from pfrl_like.errors import CheckpointError  # noqa: E402

NAMES = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in WRITERS]
)
#: How many calls of a save fail in turn, evenly spread; a dataset of many files makes a thousand calls a save.
MOST = pytest.mark.parametrize("most", [2, pytest.param(300, marks=pytest.mark.slow)])


def saved(subject: Subject, folder: Path, number: int, fault: Fault) -> bool:
    """Whether a save is said to have succeeded in which this happens."""
    with fault.installed():
        try:
            subject.write(folder, number)
        except CheckpointError as error:
            assert fault.happened and error.path.startswith(str(folder))
            return False
    return True


def survived(subject: Subject, folder: Path, current: int, fault: Fault) -> int:
    """The number of the state after a save in which this happens, and one more without."""
    done = saved(subject, folder, current + 1, fault)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the save before is used
        found = subject.read(folder)
    assert found == current + 1 or (found == current and not done)
    subject.write(folder, found + 1)
    assert subject.read(folder) == found + 1
    return found + 1


def descriptors() -> int:
    gc.collect()  # maps hold descriptors, and errors what they went through
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def count(subject: Subject, folder: Path, *names: str) -> int:
    """How many of these calls the second save makes."""
    fault = Fault(*names, n=sys.maxsize)
    subject.write(folder, 0)
    assert saved(subject, folder, 1, fault)
    return sys.maxsize - fault.left


def fails_in_turn(name: str, folder: Path, most: int, *names: str, first: int = 1, **options: Any) -> int:
    """Let calls of saves fail, one at a time, until none is left; the number of the last one."""
    subject = WRITERS[name]
    calls, current, before = count(subject, folder, *names), 1, descriptors()
    for n in itertools.count(first, max(1, calls // most)):
        fault = Fault(*names, n=n, **options)
        current = survived(subject, folder, current, fault)
        if not fault.happened:
            break
    assert descriptors() == before
    return n


@pytest.mark.timeout(3600)  # three saves for each call
@pytest.mark.representatives(4)
@MOST
@pytest.mark.parametrize("works", [False, pytest.param(True, marks=pytest.mark.slow)])
@NAMES
def test_one_call_fails(name, works, most, tmp_path):
    assert fails_in_turn(name, tmp_path, most, *CALLS, first=1 + works, works=works) > 2


@pytest.mark.timeout(3600)
@pytest.mark.representatives(4)
@MOST
@NAMES
def test_the_disk_is_full(name, most, tmp_path):
    last = fails_in_turn(name, tmp_path, most, *ROOM, lasts=True, error=errno.ENOSPC)
    assert last > 1 or name == "hdf5"  # whose library makes most calls by itself
