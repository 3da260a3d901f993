"""The lock of the one writer of a directory: its files go with it."""

from pathlib import Path
from typing import Any

import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.manifest import WriterLock


def test_nothing_stays_when_it_is_released(tmp_path: Path) -> None:
    lock = WriterLock(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"LOCK", "owner.json"}
    lock.release()
    lock.release()
    assert not [*tmp_path.iterdir()]


def test_who_locks_the_file_that_its_owner_has_just_removed_has_no_lock(tmp_path: Path, monkeypatch: Any) -> None:
    fcntl = pytest.importorskip("fcntl")
    flock, first = fcntl.flock, WriterLock(str(tmp_path))

    def late(descriptor: int, operation: int) -> Any:
        """Lock the file that was opened, but only after the first owner has removed it."""
        monkeypatch.setattr(fcntl, "flock", flock)
        first.release()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(CheckpointError, match="only one may write"):
        WriterLock(str(tmp_path))
    second = WriterLock(str(tmp_path))
    with pytest.raises(CheckpointError, match="only one may write"):
        WriterLock(str(tmp_path))
    second.release()
