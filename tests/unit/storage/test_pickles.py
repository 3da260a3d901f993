"""The one door for pickles. PFRL's own files: tests/golden/test_pfrl_buffers.py."""

import pickle
from pathlib import Path

import numpy as np
import pytest
from lab.hostile_files import pickles

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.pickles import dump_objects, load_objects, read_pickle


def test_arrays_and_containers_come_back() -> None:
    value = [np.arange(3), np.float32(1.5), np.bool_(True), {"a": (1, {2}, frozenset([3]), b"b", "ü", 1j, None)}]
    loaded = load_objects(dump_objects(value, "file"), "file")
    np.testing.assert_array_equal(loaded[0], value[0])
    assert loaded[1:] == value[1:]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_every_protocol_are_read(protocol: int) -> None:
    content = pickle.dumps([np.arange(3.0), np.int64(4), "text"], protocol)
    loaded = load_objects(content, "file")
    np.testing.assert_array_equal(loaded[0], np.arange(3.0))
    assert loaded[1:] == [4, "text"]


@pytest.mark.parametrize(
    "case", [case for case in pickles() if "protocol" not in case and case not in ("cut", "empty")]
)
def test_a_function_is_refused_unread(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="file: contains a pickle that cannot be read: "):
        load_objects(pickles()[case], "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"\x80", b"junk", b"\x80\x04]", b"\x80\x04K", b"0", b"\x80\x04\x94."])
def test_damage_is_an_error_that_names_the_file(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="file: contains a pickle that cannot be read"):
        load_objects(content, "file")


def test_a_pickle_is_not_opened_unless_allowed(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(pickle.dumps([1]))
    with pytest.raises(CheckpointError, match="allow_pickle=True .* can exhaust the memory"):
        read_pickle(str(tmp_path / "old"))
    assert read_pickle(str(tmp_path / "old"), allow_pickle=True) == [1]


def test_an_empty_file_is_called_so(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for allow_pickle in (False, True):
        with pytest.raises(CheckpointError, match="is empty"):
            read_pickle(str(tmp_path / "empty"), allow_pickle=allow_pickle)
