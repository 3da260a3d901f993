"""Pretrained agents, from a server on this machine."""

import hashlib
import io
import socket
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from file_server import FileServer, end_well_side_by_side, served

from pfrl_like.errors import CheckpointError, DownloadError
from pfrl_like.utils import download, download_model, pretrained_models


def zipped(files: Mapping[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


ARCHIVE = zipped({"best/": b"", "best/model.pt": b"weights" * 1000, "best/sub/other": b"", "__MACOSX/._best": b"x"})
PATH = "/DQN/Breakout/best.zip"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PFRL_MODELS_ROOT", str(tmp_path / "models"))
    monkeypatch.setattr(download, "_PAUSE", 0.0)
    return tmp_path / "models"


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    with served() as running:
        monkeypatch.setattr(pretrained_models, "download_url", running.url + "/")
        running.files[PATH] = ARCHIVE
        yield running


def test_an_agent_is_downloaded_once_to_pfrls_places(server: FileServer, root: Path) -> None:
    directory = str(root / "DQN" / "Breakout" / "best")
    assert download_model("DQN", "BreakoutNoFrameskip-v4", model_type="best") == (directory, False)
    assert download_model("DQN", "BreakoutNoFrameskip-v4") == (directory, True)
    assert server.asked == [(PATH, None)]
    assert Path(directory, "model.pt").read_bytes() == b"weights" * 1000
    assert {path.name for path in (root / "DQN" / "Breakout").iterdir()} == {"best", "best.zip"}
    assert {path.name for path in root.iterdir()} == {".lock", "DQN", "_dl_cache"}


def test_a_broken_connection_is_resumed_and_the_checksum_compared(server: FileServer) -> None:
    server.breaks_after = [100, 0, 50]
    checksum = hashlib.sha256(ARCHIVE).hexdigest()
    assert download_model("DQN", "Breakout", sha256=checksum)[1] is False
    assert [wanted for _, wanted in server.asked] == [None, "bytes=100-", "bytes=100-", "bytes=150-"]


def test_a_wrong_checksum_is_refused(server: FileServer, root: Path) -> None:
    with pytest.raises(CheckpointError, match=f"expected sha256 {'0' * 64}; the file was removed"):
        download_model("DQN", "Breakout", sha256="0" * 64)
    assert not [*(root / "DQN" / "Breakout").iterdir()]


def test_the_checksum_of_an_archive_that_was_put_into_the_cache_is_compared(root: Path) -> None:
    archive = root / "DQN" / "Breakout" / "best.zip"
    archive.parent.mkdir(parents=True)
    archive.write_bytes(ARCHIVE)
    with pytest.raises(CheckpointError, match=f"expected sha256 {'0' * 64}; the file was removed"):
        download_model("DQN", "Breakout", sha256="0" * 64)
    assert not [*archive.parent.iterdir()]


def test_the_checksum_of_a_cached_agent_is_that_of_its_archive(server: FileServer, root: Path) -> None:
    checksum = hashlib.sha256(ARCHIVE).hexdigest()
    download_model("DQN", "Breakout")
    assert download_model("DQN", "Breakout", sha256=checksum.upper())[1] is True
    with pytest.raises(CheckpointError, match="expected sha256"):
        download_model("DQN", "Breakout", sha256="0" * 64)
    Path(root, "DQN", "Breakout", "best", "model.pt").write_bytes(b"other weights")
    directory, cached = download_model("DQN", "Breakout", sha256=checksum)  # without its archive, it is fetched again
    assert not cached and Path(directory, "model.pt").read_bytes() == b"weights" * 1000


def test_what_is_no_checksum_is_refused_before_anything_is_fetched(server: FileServer) -> None:
    for cached in (False, True):
        with pytest.raises(ValueError, match="sha256 is 'xyz', expected 64 hexadecimal digits"):
            download_model("DQN", "Breakout", sha256="xyz")
        assert len(server.asked) == cached
        download_model("DQN", "Breakout")


def test_without_a_network_the_error_names_address_and_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        monkeypatch.setattr(pretrained_models, "download_url", address)
        with pytest.raises(DownloadError) as raised:
            download_model("DQN", "Breakout")
    archive = root / "DQN" / "Breakout" / "best.zip"
    assert f"{address}DQN/Breakout/best.zip cannot be fetched" in str(raised.value)
    assert f"put the file at {archive} yourself" in str(raised.value)
    archive.write_bytes(ARCHIVE)  # as the message says
    assert download_model("DQN", "Breakout") == (str(archive.with_suffix("")), False)


@pytest.mark.representatives(3)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"no archive", "File is not a zip file"),
        (zipped({"other/model.pt": b""}), "folder best has 0 files"),
        (zipped({"best/../../model.pt": b"x"}), r"some with \.\. in their names"),
        (zipped({"../model.pt": b"x"}), "folder best has 0 files"),
        (zipped({"best": b"x"}), "folder best has no files"),
        (ARCHIVE.replace(b"weights", b"Weights", 1), "Bad CRC-32"),
    ],
)  # fmt: skip
def test_what_is_no_archive_of_an_agent_is_refused_and_leaves_nothing(
    server: FileServer, root: Path, content: bytes, reason: str
) -> None:
    server.files[PATH] = content
    with pytest.raises(CheckpointError, match=f"is no archive of an agent: .*{reason}.*; the file was removed"):
        download_model("DQN", "Breakout")
    assert not [*(root / "DQN" / "Breakout").iterdir()]
    server.files[PATH] = ARCHIVE
    assert download_model("DQN", "Breakout")[1] is False


def test_an_archive_that_unpacks_to_too_much_is_refused(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretrained_models, "_LARGEST", 6999)
    with pytest.raises(CheckpointError, match="3 files of 7,000 bytes, expected files of at most 6,999 bytes in all"):
        download_model("DQN", "Breakout")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("TD4", "Hopper-v2"), "alg is 'TD4', expected one of 'DQN', 'IQN', "),
        (("PPO", "Hopper-v2", "best"), "model_type is 'best', expected one of 'final'"),
        (("DQN", "../other"), "expected names without .."),
    ],
)
def test_an_agent_that_pfrl_does_not_offer_is_refused(root: Path, arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        download_model(*arguments)


@pytest.mark.slow
def test_two_processes_at_once_download_once(server: FileServer, root: Path) -> None:
    server.pause = 0.2  # so that the second one comes while the first is at it
    end_well_side_by_side(download_model, "DQN", "Breakout")
    assert server.asked == [(PATH, None)]
