"""A limit of the system on the length of files stands for a full disk, also for what libraries write by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("h5py")
resource = pytest.importorskip("resource")

from lab.writers import SLOW, WRITERS  # noqa: E402

from pfrl_like.errors import CheckpointError  # noqa: E402


def main(name: str, folder: Path) -> int:
    """Save under ever higher limits until one is enough; returns how many were not."""
    subject, hard = WRITERS[name], resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    subject.write(folder, 0)
    current = 0
    for refused in range(60):
        limit = int(1.5**refused)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            subject.write(folder, current + 1)
            done = True
        except CheckpointError:
            done = False
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
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
def test_a_file_that_may_not_grow_is_a_failed_save(name: str, tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "lab.test_full_disk", name, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 3


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2])))
