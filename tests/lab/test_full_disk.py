"""A limit of the system on the length of files stands for a full disk, also for what libraries write by themselves."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("h5py")

from disk_parts import full_from  # noqa: E402
from lab.children import forked  # noqa: E402
from lab.subjects import SLOW, WRITERS  # noqa: E402
from lab.test_failing_calls import survived  # noqa: E402


def refused_saves(name: str, folder: Path) -> int:
    """Save under ever higher limits until one is enough; returns how many were not."""
    subject, current = WRITERS[name], 0
    subject.write(folder, 0)
    for refused in range(60):
        # in place of a `Fault`
        limit: Any = SimpleNamespace(happened=True, installed=partial(full_from, int(1.5**refused)))
        before, current = current, survived(subject, folder, current, limit)
        if current == before + 2:  # that save has succeeded, and the next one
            return refused
    raise AssertionError("no limit was enough")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "hdf5" else [pytest.mark.slow]) for name in WRITERS if name not in SLOW],
)
def test_a_file_that_may_not_grow_is_a_failed_save(name, tmp_path):
    assert forked(refused_saves, name, tmp_path) > 3
