"""What is synced together has reached the disk at the end, and before anything that has to come later."""

import errno
import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import atomic_write
from pfrl_like.storage.atomic import sync_directory, synced_together

Synced = list[str]


def name_of(descriptor: int) -> str:
    return Path(f"/proc/self/fd/{descriptor}").readlink().name


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    """The files that were synced, and those that took the place of others, in order."""
    calls: Synced = []
    replace = os.replace

    def record_replace(source: str, target: str) -> None:
        calls.append(f"replace {os.path.basename(target)}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append(name_of(descriptor)))
    monkeypatch.setattr(os, "replace", record_replace)
    return calls


def open_files() -> int:
    gc.collect()  # earlier tests may have left open files
    return len(os.listdir("/proc/self/fd"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")


@needs_proc
def test_everything_is_synced_once_at_the_end(tmp_path: Path, synced: Synced) -> None:
    before = open_files()
    with synced_together():
        for name in "abc":
            atomic_write(tmp_path / name, name.encode())
        assert synced == ["replace a", "replace b", "replace c"]
    assert sorted(synced[3:]) == sorted(["a", "b", "c", *3 * [tmp_path.name]])
    assert open_files() == before


@needs_proc
def test_what_replaces_a_file_is_synced_before_with_all_that_came_earlier(tmp_path: Path, synced: Synced) -> None:
    (tmp_path / "old").write_bytes(b"old")
    with synced_together():
        atomic_write(tmp_path / "a", b"a")
        atomic_write(tmp_path / "old", b"new")
    last = synced.index("replace old")
    assert "a" in synced[:last] and any(name.startswith(".tmp-old") for name in synced[:last])
    assert tmp_path.name in synced[:last] and tmp_path.name in synced[last:]


@needs_proc
def test_a_file_alone_is_synced_before_it_takes_its_place_and_its_folder_after(tmp_path: Path, synced: Synced) -> None:
    atomic_write(tmp_path / "a", b"new")
    assert [call.partition("-")[0] for call in synced] == [".tmp", "replace a", tmp_path.name]
    synced.clear()
    atomic_write(tmp_path / "a", b"newer", durable=False)
    assert synced == ["replace a"]


@needs_proc
def test_the_outer_end_counts(tmp_path: Path, synced: Synced) -> None:
    with synced_together():
        with synced_together():
            sync_directory(str(tmp_path))
        assert synced == []
    assert synced == [tmp_path.name]
    sync_directory(str(tmp_path))
    assert len(synced) == 2


@needs_proc
def test_few_files_are_open_at_a_time(tmp_path: Path, synced: Synced) -> None:
    before, most = open_files(), 0
    with synced_together():
        for _ in range(300):
            sync_directory(str(tmp_path))
            most = max(most, len(os.listdir("/proc/self/fd")))  # without `gc.collect`, which is slow here
    assert len(synced) == 300
    assert before < most <= before + 70


@needs_proc
def test_an_error_of_the_disk_names_the_file_and_nothing_stays_open(tmp_path: Path, monkeypatch: Any) -> None:
    def fail(descriptor: int) -> None:
        if name_of(descriptor) == "b":
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    before = open_files()
    with pytest.raises(CheckpointError, match=r"b.*: cannot be written: Input/output error"), synced_together():
        for name in "abc":
            atomic_write(tmp_path / name, name.encode())
    with pytest.raises(ValueError, match="mine"), synced_together():
        atomic_write(tmp_path / "d", b"d")
        raise ValueError("mine")
    assert open_files() == before


@needs_proc
def test_other_threads_wait_for_themselves(tmp_path: Path, synced: Synced) -> None:
    with synced_together():
        thread = threading.Thread(target=sync_directory, args=(str(tmp_path),))
        thread.start()
        thread.join()
        assert synced == [tmp_path.name]


def test_folders_that_cannot_be_synced_are_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "fsync", fail)
    with synced_together():
        sync_directory(str(tmp_path))
    with pytest.raises(CheckpointError, match="cannot be written"), synced_together():
        atomic_write(tmp_path / "a", b"a")


@needs_proc
def test_an_interrupt_closes_no_file_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = os.close

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    def record_close(descriptor: int) -> None:
        closed.append(descriptor)
        close(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt), synced_together():
            for _ in range(20):
                sync_directory(str(tmp_path))
            patch.setattr(os, "close", record_close)
    assert len(closed) == 20


def test_where_no_thread_can_be_started_the_save_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: ThreadPoolExecutor, *arguments: Any) -> NoReturn:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    with pytest.raises(CheckpointError, match="a.*: cannot be written: can't start new thread"), synced_together():
        atomic_write(tmp_path / "a", b"a")
