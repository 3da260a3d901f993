"""Named arrays in one file."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lab.hostile_files import array_file, array_files, described

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.arrays import is_array_file, read_arrays, write_arrays


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "buffer"


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3).T, np.arange(10)[::3], np.arange(3, dtype=">i4")])
def test_layout_in_memory_does_not_matter(array: Any, path: Path) -> None:
    write_arrays(path, {}, {"x": array})
    np.testing.assert_array_equal(read_arrays(path)[1]["x"], array)


def test_columns_longer_than_a_piece_come_back(path: Path) -> None:
    array = np.arange((1 << 24) + 5, dtype=np.uint8)
    write_arrays(path, {}, {"x": array, "y": array[:3]})
    arrays = read_arrays(path)[1]
    assert np.array_equal(arrays["x"], array)
    assert np.array_equal(arrays["y"], array[:3])


def test_objects_are_written_and_read_only_where_pickles_are_allowed(path: Path) -> None:
    array = np.empty(3, object)
    array[:] = [{"a": np.arange(3)}, (1, "b", None), [np.float32(2)]]
    text = "cannot store 'x', because it contains Python objects.*allow_pickle=True"
    with pytest.raises(CheckpointError, match=text):
        write_arrays(path, {}, {"x": array})
    assert not path.exists()
    write_arrays(path, {}, {"x": array}, allow_pickle=True)
    with pytest.raises(CheckpointError, match="has columns of pickled objects; pass allow_pickle=True"):
        read_arrays(path)
    loaded = read_arrays(path, allow_pickle=True)[1]["x"]
    np.testing.assert_array_equal(loaded[0]["a"], np.arange(3))
    assert loaded[1:].tolist() == [(1, "b", None), [2.0]]


def test_objects_of_one_shape_stay_objects(path: Path) -> None:
    array = np.empty((2, 1), object)
    array[0, 0], array[1, 0] = np.zeros(2), np.ones(2)
    write_arrays(path, {}, {"x": array}, allow_pickle=True)
    loaded = read_arrays(path, allow_pickle=True)[1]["x"]
    assert loaded.shape == (2, 1)
    assert loaded[1, 0].tolist() == [1, 1]


@pytest.mark.parametrize("item", [Path("x"), np.vectorize, {1: object()}], ids=["class", "function", "nested"])
def test_an_object_that_could_not_be_read_again_is_not_written(item: Any, path: Path) -> None:
    array = np.empty(1, object)
    array[0] = item
    with pytest.raises(CheckpointError, match="not allowed|cannot be written"):
        write_arrays(path, {}, {"x": array}, allow_pickle=True)
    assert not path.exists()


@pytest.mark.parametrize("dtype", ["i4,f8", "V8"])
def test_other_dtypes_are_refused(dtype: str, path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot store 'x', which has the dtype"):
        write_arrays(path, {}, {"x": np.zeros(2, dtype)})


def test_a_file_of_arrays_is_known_by_its_beginning(path: Path) -> None:
    write_arrays(path, {}, {})
    assert is_array_file(path)
    path.write_bytes(b"\x80\x04K\x01.")
    assert not is_array_file(path)


def test_every_flipped_byte_and_what_is_cut_or_longer_is_noticed(path: Path) -> None:
    write_arrays(path, {"a": 1}, {"x": np.arange(5), "y": np.array([True])})
    content = path.read_bytes()
    flipped = (content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :] for at in range(len(content)))
    for other in (*flipped, *(content[:length] for length in range(0, len(content), 3)), content + b"\0"):
        path.write_bytes(other)
        with pytest.raises(CheckpointError):
            read_arrays(path)


READABLE = ("no column that is asked for", "long double")
LIES = (
    {name: content for name, content in array_files().items() if name not in READABLE}
    | {
        "a number for a shape": described(shape=1),
        "a truth value in a shape": described(shape=[True]),
        "arrays in an array": described(dtype="(9999999,9999999)f8", shape=[0]),
        "an unknown unit": described(dtype="<M8[lightyears]", shape=[0]),
        "no pickle": described(dtype="|O", shape=[0], pickled=0),
        "less than a pickle": described(dtype="|O", shape=[0], pickled=-1),
    }
    | {columns: array_file(b'{"columns": %s, "header": {}}' % columns.encode()) for columns in ("[3]", "null", "[{}]")}
)


@pytest.mark.parametrize("case", LIES)
@pytest.mark.parametrize("allow_pickle", [False, True])
def test_a_header_that_lies_is_refused(case: str, allow_pickle: bool, path: Path) -> None:
    path.write_bytes(LIES[case])
    with pytest.raises(CheckpointError):
        read_arrays(path, allow_pickle=allow_pickle)


def test_values_that_do_not_exist_are_refused(path: Path) -> None:
    for array, value in ((np.array([True]), 2), (np.array(["a"]), 255)):
        write_arrays(path, {}, {"x": array})
        content = bytearray(path.read_bytes())
        content[-72 + (3 if value == 255 else 0)] = value
        content[-8:-4] = struct.pack("<I", zlib.crc32(content[:-8]))  # which is right
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="neither 0 nor 1|characters that do not exist"):
            read_arrays(path)


def test_an_error_without_words_is_told_by_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arrays(path, {}, {"x": np.zeros(2)})

    def fail(*arguments: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("pfrl_like.storage.arrays._read", fail)
    with pytest.raises(CheckpointError, match="is damaged: MemoryError"):
        read_arrays(path)
