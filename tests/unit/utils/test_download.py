"""Downloads, from a server on this machine."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from file_server import FileServer, end_well_side_by_side, served

from pfrl_like.errors import CheckpointError, DownloadError
from pfrl_like.utils import download
from pfrl_like.utils.download import download_file

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[FileServer]:
    with served() as running:
        running.files["/file"] = CONTENT
        yield running


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_PAUSE", 0.0)


def test_a_file_is_fetched_once(server: FileServer, tmp_path: Path) -> None:
    for _ in range(2):
        assert download_file(f"{server.url}/file", tmp_path / "new" / "file", SHA256).read_bytes() == CONTENT
    assert server.asked == [("/file", None)]
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"file", "file.lock"}


def test_a_broken_connection_is_resumed_where_it_broke(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = [1_000, 0, 2_000]
    assert download_file(f"{server.url}/file", tmp_path / "file", SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=1000-", "bytes=3000-"]


def test_a_later_call_goes_on_where_an_earlier_one_gave_up(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = [1_000, 0, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="the connection ended early"):
        download_file(f"{server.url}/file", tmp_path / "file")
    assert not (tmp_path / "file").exists()
    server.asked.clear()
    assert download_file(f"{server.url}/file", tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [("/file", "bytes=1000-")]


@pytest.mark.parametrize("tag", ['"2"', None, 'W/"1"'])
def test_a_file_that_has_changed_or_cannot_be_told_from_another_is_fetched_anew(
    server: FileServer, tmp_path: Path, tag: str | None
) -> None:
    server.breaks_after = [1_000, 0, 0, 0, 0, 0]
    server.tag = '"1"' if tag == '"2"' else tag
    with pytest.raises(DownloadError):
        download_file(f"{server.url}/file", tmp_path / "file")
    server.files["/file"], server.tag = b"x" + CONTENT, tag
    assert download_file(f"{server.url}/file", tmp_path / "file").read_bytes() == b"x" + CONTENT


@pytest.mark.parametrize("surplus", [b"", b"more"])
def test_a_part_that_holds_everything_or_more_is_noticed(server: FileServer, tmp_path: Path, surplus: bytes) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT + surplus)
    (tmp_path / "file.part.version").write_text('"1"')
    assert download_file(f"{server.url}/file", tmp_path / "file", SHA256).read_bytes() == CONTENT
    assert len(server.asked) == (2 if surplus else 1)


@pytest.mark.parametrize("there", [False, True])
def test_a_wrong_checksum_is_refused_and_the_file_removed(server: FileServer, tmp_path: Path, there: bool) -> None:
    if there:
        (tmp_path / "file").write_bytes(CONTENT)
    message = f"has the checksum {SHA256}, expected sha256 {'0' * 64}; the file was removed"
    with pytest.raises(CheckpointError, match=message):
        download_file(f"{server.url}/file", tmp_path / "file", "0" * 64)
    assert [path.name for path in tmp_path.iterdir()] == ["file.lock"]
    assert download_file(f"{server.url}/file", tmp_path / "file", SHA256.upper()).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(server: FileServer, tmp_path: Path) -> None:
    server.refuses = [503, 429]
    assert download_file(f"{server.url}/file", tmp_path / "file").read_bytes() == CONTENT
    server.asked.clear()
    with pytest.raises(DownloadError, match="the server returned 404 Not Found"):
        download_file(f"{server.url}/other", tmp_path / "other")
    assert len(server.asked) == 1


def test_without_a_network_the_error_says_where_to_put_the_file(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(DownloadError, match=f"refused.*put the file at {tmp_path}/file yourself"):
            download_file(f"http://127.0.0.1:{taken.getsockname()[1]}/file", tmp_path / "file")


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://there/file", "there"])
def test_other_addresses_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="expected an address that begins with http:// or https://"):
        download_file(url, tmp_path / "file")


def test_two_processes_at_once_download_once(server: FileServer, tmp_path: Path) -> None:
    server.pause = 0.5  # so that the second one comes while the first is at it
    end_well_side_by_side(download_file, f"{server.url}/file", tmp_path / "file", SHA256)
    assert server.asked == [("/file", None)]
    assert (tmp_path / "file").read_bytes() == CONTENT
