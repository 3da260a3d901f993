"""Persistent buffers whose disk reports an error, or whose journal is full."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import PersistentReplayBuffer
from pfrl_like.storage import journal
from pfrl_like.storage.journal import SYNCED, read_journal


def fill(buffer: Any, steps: range) -> None:
    for i in steps:
        buffer.append(np.full(3, i, np.float32), i % 3, float(i), np.full(3, i + 1, np.float32), i % 5 == 4)


def rewards(buffer: Any) -> list[float]:
    return [item[0]["reward"] for item in buffer.memory]


WAITING = {
    "save_increment": lambda buffer, folder: buffer.save_increment(folder),
    "state_dict": lambda buffer, folder: buffer.state_dict(),
    "sync": lambda buffer, folder: buffer.sync(),
}


@pytest.mark.parametrize("kind", ["journal", "columns"])
@pytest.mark.parametrize("waiting", WAITING.values(), ids=WAITING)
def test_what_the_disk_has_not_taken_is_not_said_to_be_on_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, waiting: Any
) -> None:
    place = tmp_path / "steps"
    buffer = PersistentReplayBuffer(place, 20, sync_every=10**6, sync_seconds=1e9)
    fill(buffer, range(5))
    fsync, failed = os.fsync, []

    def fails_once(descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not failed and any(os.path.samestat(status, path.stat()) for path in place.glob(f"{kind}-*")):
            failed.append(descriptor)
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", fails_once)
    with pytest.raises(CheckpointError, match="Input/output error"):
        waiting(buffer, tmp_path / "saves")
    for again in (lambda: fill(buffer, range(5, 6)), buffer.sync, lambda: waiting(buffer, tmp_path / "saves")):
        with pytest.raises(CheckpointError, match="cannot store any more since .*Input/output error"):
            again()
    (path,) = place.glob("journal-*")
    buffer.close()
    assert read_journal(str(path))[0].count(SYNCED) == 1  # where it began
    with PersistentReplayBuffer(place, 20) as buffer:
        assert rewards(buffer) == list(range(5))
        fill(buffer, range(5, 6))


def test_a_journal_is_never_longer_than_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_LARGEST", 1500)
    buffer = PersistentReplayBuffer(tmp_path, 100, journal_length=10**6, sync_every=3, sync_seconds=1e9)
    generations = set()
    for i in range(120):
        fill(buffer, range(i, i + 1))
        for _ in range(i % 7):
            buffer.sync()
        (now,) = tmp_path.glob("journal-*")
        generations.add(now.name)
        assert now.stat().st_size <= 1500
    many = np.arange(360, dtype=np.float32).reshape(120, 3)  # whose records are more than a journal takes
    stops = np.zeros(120, bool)
    buffer.append_batch(many, stops.astype(int), many[:, 0], many + 1, stops, stops, env_ids=range(120))
    held = rewards(buffer)
    assert len(generations) > 5 and len(held) == 100
    buffer._directory.close()  # what is left when a process is killed
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        assert rewards(buffer) == held
