"""A limit of the system on the length of files stands for a full disk, also for what libraries write by themselves."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")

from disk_parts import let_files_grow  # noqa: E402
from lab.children import finished  # noqa: E402
from lab.subjects import SLOW, WRITERS  # noqa: E402

from pfrl_like.errors import CheckpointError  # noqa: E402


def main(name: str, folder: Path) -> int:
    """Save under ever higher limits until one is enough; returns how many were not."""
    subject, current = WRITERS[name], 0
    subject.write(folder, 0)
    for refused in range(60):
        limit = int(1.5**refused)
        let_files_grow(limit)
        try:
            subject.write(folder, current + 1)
            done = True
        except CheckpointError:
            done = False
        let_files_grow(None)
        found = subject.read(folder)
        assert found == current + 1 or (found == current and not done), (limit, done, current, found)
        if done:
            return refused
        current = found + 1
        subject.write(folder, current)
        assert subject.read(folder) == current, limit
    raise AssertionError("no limit was enough")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "hdf5" else [pytest.mark.slow]) for name in WRITERS if name not in SLOW],
)
def test_a_file_that_may_not_grow_is_a_failed_save(name, tmp_path):
    assert int(finished("test_full_disk", name, str(tmp_path), timeout=280).stdout) > 3


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2])))
