"""Files that grow by whole pieces, where they may not grow beyond a size."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from disk_parts import full_from

from pfrl_like.errors import CheckpointError
from pfrl_like.storage import AppendedFile, journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "table"


def refuse(file: AppendedFile, piece: bytes) -> None:
    with pytest.raises(CheckpointError, match="table: cannot be written: File too large"):
        file.append(piece)


def test_a_piece_that_does_not_fit_is_not_there_in_part_and_is_written_later(path: Path) -> None:
    file = AppendedFile(path)
    with full_from(10):
        file.append(b"first\n")
        refuse(file, b"second\n")
        refuse(file, b"third\n")
        assert path.read_bytes() == b"first\n"
    file.append(b"fourth\n")
    file.close()
    assert path.read_bytes() == b"first\nsecond\nthird\nfourth\n"


def test_who_may_decide_is_asked_by_the_name_of_the_file(path: Path) -> None:
    file, asked = AppendedFile(path), []

    @contextlib.contextmanager
    def told(name: str) -> Iterator[None]:
        with contextlib.suppress(CheckpointError):
            asked.append(name)
            yield

    file.error_context = told
    with full_from(0):
        file.append(b"lost\n")
        with pytest.raises(CheckpointError):
            file.flush()
        file.close()
    assert asked == ["table", "table"] and path.read_bytes() == b""


def test_no_piece_is_there_before_those_of_the_other_file(path: Path) -> None:
    first = AppendedFile(path)
    second = AppendedFile(path.with_name("second"), after=first)
    with full_from(4):
        refuse(first, b"record")
        refuse(second, b"line")
        assert second.size == 0
    second.append(b"end")
    assert path.read_bytes() == b"record" and path.with_name("second").read_bytes() == b"lineend"
    second.close()
    first.close()


def test_beyond_what_may_wait_the_file_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_BUFFERED", 10)
    file = AppendedFile(path)
    with full_from(4):
        file.append(b"one\n")
        refuse(file, b"two\n")
        with pytest.raises(CheckpointError, match="is incomplete"):
            file.append(b"three and four\n")
    with pytest.raises(CheckpointError, match="is incomplete"):
        file.append(b"five\n")
    file.flush()  # nothing waits
    file.close()
    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize(("keep", "left"), [(None, b"held\nmore\n"), (0, b"more\n"), (2, b"hemore\n")])
def test_so_much_of_what_a_file_held_stays(keep: int | None, left: bytes, path: Path) -> None:
    path.write_bytes(b"held\n")
    file = AppendedFile(path, keep=keep)
    file.append(b"more\n")
    file.close()
    assert path.read_bytes() == left


def test_a_file_is_written_on_after_it_was_closed_and_what_was_held_is_not_lost(path: Path) -> None:
    file = AppendedFile(path)
    file.close()
    file.append(b"first\n")
    file.hold(b"second\n")
    del file
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere/table: cannot be written: No such file"):
        AppendedFile(tmp_path / "nowhere" / "table")
