"""One file: the old content or the new."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from time_parts import PATIENCE

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write, make_directory, open_regular, read_bounded, save_lock

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")


def test_an_interrupt_passes_unchanged_and_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(file: BinaryIO) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atomic_write(tmp_path / "a.txt", interrupt)
    assert not list(tmp_path.iterdir())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"absent.a\.txt: cannot be written: No such file"):
        atomic_write(tmp_path / "absent" / "a.txt", b"x")


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    atomic_write(tmp_path / "a.txt", b"0123456789")
    assert (tmp_path / "a.txt").read_bytes() == b"0123456789"


def test_bytes_that_did_not_arrive_fail_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data: len(data))
    with pytest.raises(CheckpointError, match=r"10 bytes were written, the file has 0"):
        atomic_write(tmp_path / "a.txt", b"0123456789")


@posix
def test_each_new_directory_is_synced_into_the_one_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    make_directory(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert sorted(synced) == sorted(path.stat().st_ino for path in (tmp_path, tmp_path / "a"))
    make_directory(str(tmp_path / "a" / "b"))
    assert len(synced) == 2


@posix
def test_a_link_of_the_name_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"precious")
    (tmp_path / "a.txt").symlink_to(tmp_path / "outside")
    atomic_write(tmp_path / "a.txt", b"new")
    assert (tmp_path / "outside").read_bytes() == b"precious"
    assert not (tmp_path / "a.txt").is_symlink()


@posix
def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    atomic_write(tmp_path / "a.txt", b"new")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_only_old_temporaries_of_the_same_file_are_removed(tmp_path: Path) -> None:
    old, fresh, other = (
        tmp_path / name for name in (".tmp-a.txt-1-00000000", ".tmp-a.txt-2-00000000", ".tmp-b.txt-1-00000000")
    )
    for path in (old, fresh, other):
        path.touch()
    for path in (old, other):
        os.utime(path, (time.time() - 7200,) * 2)
    atomic_write(tmp_path / "a.txt", b"new")
    assert not old.exists()
    assert fresh.exists()
    assert other.exists()


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"12345")
    assert read_bounded(str(tmp_path / "a.txt"), 5) == b"12345"
    with pytest.raises(CheckpointError, match="longer than 4 bytes"):
        read_bounded(str(tmp_path / "a.txt"), 4)


def link(path: Path) -> None:
    path.with_name("b").touch()
    path.symlink_to(path.with_name("b"))


def bind(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(path.name)


@posix
@pytest.mark.parametrize("make", [os.mkdir, link, os.mkfifo, bind, None])
def test_only_plain_files_are_opened(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket may be no longer than 108 bytes
    path = tmp_path / "a" if make else Path(os.devnull)
    if make:
        make(path)
    with pytest.raises(CheckpointError, match="symbolic link|not a regular file|cannot be read"):
        open_regular(str(path))


@posix
def test_a_lock_held_by_another_process_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    hold = "import fcntl, os, sys; fcntl.flock(os.open(sys.argv[1], 0), 2); print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        with (
            pytest.raises(CheckpointError, match="locked for 0.05 s by another process"),
            save_lock(str(tmp_path), timeout=0.05),
        ):
            pass
        process.stdin.close()
        with save_lock(str(tmp_path), timeout=PATIENCE):
            pass
    assert not list(tmp_path.iterdir())


FORKS = """
import os, sys
from pfrl_like.storage.atomic import save_lock
with save_lock(sys.argv[1]):
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
try:
    with save_lock(sys.argv[1], timeout=0.05):
        print("locked again")
finally:
    os.close(writing)
    os.waitpid(child, 0)
"""


@pytest.mark.slow
@posix
def test_a_lock_ends_with_its_block_though_a_process_was_forked_in_it(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", FORKS, str(tmp_path)], capture_output=True, text=True)
    assert (told.stdout, told.returncode) == ("locked again\n", 0), told.stderr


def test_a_full_disk_is_told_whatever_the_writer_makes_of_it(tmp_path: Path) -> None:
    def write(file: BinaryIO) -> None:
        try:
            raise OSError(28, "No space left on device")
        except OSError:
            raise RuntimeError("unexpected pos 46") from None

    with pytest.raises(CheckpointError, match="No space left"):
        atomic_write(tmp_path / "x", write)
