"""State dicts through `.pt` files, what hostile ones do, and checksums of many values."""

import collections
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lab.hostile_tensors import archive, crafted, saved
from torch import nn

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.plain_tensors import checksum, checksum_of_many, plain_tensors, tensor_writer
from pfrl_like.storage.tensors import load_tensors


def round_trip(value: Any, folder: Path) -> Any:
    path = folder / "file.pt"
    atomic_write(path, tensor_writer(value, path))
    return load_tensors(str(path))


@pytest.mark.parametrize("dtype", ["bfloat16", "complex64", "complex128"])
def test_dtypes_that_numpy_lacks_or_few_have_come_back(dtype: str, tmp_path: Path) -> None:
    value = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype))
    loaded = round_trip({"x": value}, tmp_path)["x"]
    assert loaded.dtype == value.dtype
    assert torch.equal(loaded, value)


def test_module_versions_come_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    loaded = round_trip(model.state_dict(), tmp_path)
    assert loaded._metadata == model.state_dict()._metadata
    model.load_state_dict(loaded)


def test_schedules_come_back(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 3, 5])
    loaded = round_trip(schedule.state_dict(), tmp_path)
    assert loaded["milestones"] == collections.Counter({3: 2, 5: 1})
    schedule.load_state_dict(loaded)


def of_torch(value: Any, folder: Path, **options: Any) -> Any:
    """What torch saves, read."""
    torch.save(value, folder / "file.pt")
    return load_tensors(str(folder / "file.pt"), **options)


def test_files_of_torch_save_are_read(tmp_path: Path) -> None:
    value = {"parameter": nn.Parameter(torch.ones(2)), "size": torch.Size([1, 2]), "column": torch.ones(3, 2).T[1]}
    loaded = of_torch(value, tmp_path)
    assert loaded["size"] == (1, 2)
    assert torch.equal(loaded["parameter"], torch.ones(2))
    assert torch.equal(loaded["column"], torch.ones(3))


def test_tensors_that_shared_a_storage_come_back_apart(tmp_path: Path) -> None:
    storage = torch.arange(6.0)
    whole, part = of_torch([storage, storage[2:4]], tmp_path)
    whole.zero_()
    assert part.tolist() == [2, 3]
    assert part.untyped_storage().nbytes() == 8


def test_a_tensor_saved_in_several_places_comes_back_as_one(tmp_path: Path) -> None:
    tied = torch.ones(1).expand(100_000)
    loaded = of_torch([tied] * 200, tmp_path, max_bytes=500_000)
    assert len(loaded) == 200
    assert all(part is loaded[0] for part in loaded)
    assert torch.equal(loaded[0], tied)


def test_a_view_is_written_without_what_it_looks_at(tmp_path: Path) -> None:
    round_trip({"x": torch.zeros(1_000_000)[:1]}, tmp_path)
    assert (tmp_path / "file.pt").stat().st_size < 5000


def test_an_expanded_tensor_is_written_whole(tmp_path: Path) -> None:
    assert round_trip([torch.ones(1).expand(3)], tmp_path)[0].tolist() == [1, 1, 1]


def test_an_expanded_tensor_of_torch_save_is_read(tmp_path: Path) -> None:
    [loaded] = of_torch([torch.ones(1).expand(3)], tmp_path)
    loaded[0] = 2
    assert loaded.tolist() == [2, 1, 1]


def test_the_value_is_taken_when_the_writer_is_made(tmp_path: Path) -> None:
    value = torch.zeros(1)
    writer = tensor_writer(value, "file")
    value.fill_(1)
    atomic_write(tmp_path / "file.pt", writer)
    assert load_tensors(str(tmp_path / "file.pt")).item() == 0


def test_numpy_numbers_become_numbers(tmp_path: Path) -> None:
    assert round_trip({"a": np.float64(0.5), "b": np.int32(3)}, tmp_path) == {"a": 0.5, "b": 3}


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


def quantised() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore:.*quantize")
@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2), {1, 2}, b"bytes", nn.Linear(1, 1), torch.zeros(2).to_sparse(), torch.zeros(2, device="meta"),
        torch.zeros(2, dtype=torch.uint16), torch.zeros([1] * 17), nn.UninitializedParameter(), 1 << 2000,
        {(1 << 61) - 1: 1}, {(1, 2): 0}, "long" * 3_000_000, quantised, ITSELF,
    ],
    ids=lambda value: f"{type(value).__name__} {str(value)[:30]}".partition(" at 0x")[0],
)  # fmt: skip
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    message = "x is a sparse, quantised" if value is quantised else "file: x|file: the value"
    value = value() if value is quantised else value
    with pytest.raises(CheckpointError, match="contains itself" if value is ITSELF else message):
        plain_tensors({"x": value}, "file")


def test_max_bytes_bounds_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.pt"
    torch.save({"x": torch.zeros(1000)}, path)
    load_tensors(str(path), max_bytes=8000)  # 4,000 of storage, 4,000 of tensor
    with pytest.raises(CheckpointError, match="needs more memory"):
        load_tensors(str(path), max_bytes=7999)


def test_a_file_of_old_pytorch_is_refused_with_a_reason(tmp_path: Path) -> None:
    torch.save({}, tmp_path / "file.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(CheckpointError, match="not a zip file"):
        load_tensors(str(tmp_path / "file.pt"))


# State dicts made to harm whoever reads them are refused; tests/lab has those of all other loaders


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", crafted())
def test_a_crafted_state_dict_is_refused(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pt"
    path.write_bytes(crafted()[case]())
    with pytest.raises(CheckpointError, match=r"model\.pt: "):
        load_tensors(str(path))
    assert os.listdir() == ["model.pt"]


def test_the_assembler_makes_files_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(archive())
    assert load_tensors(str(tmp_path / "model.pt"))["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_damaged_state_dict_is_refused_or_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    expected = torch.nn.Linear(3, 2).state_dict()
    content = saved(expected)
    refused = 0
    for position in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        path.write_bytes(damaged)
        try:
            loaded = load_tensors(str(path))
        except CheckpointError:
            refused += 1
        else:  # the zip's time stamps, paddings and doubled fields carry nothing
            assert loaded.keys() == expected.keys()
            assert all(torch.equal(loaded[key], expected[key]) for key in expected)
    assert refused > len(content) // 3 * 0.3


# Checksums of many values at once are those of one after the other


MANY: dict[str, list[Any]] = {
    "none": [],
    "one": [np.arange(3.0)],
    "alike": [np.arange(4, dtype=np.float32) + i for i in range(5)],
    "of several kinds": [np.arange(4.0), np.arange(3, dtype=np.int8), np.array(2.5), np.zeros((0, 2))],
    "not contiguous": [np.arange(12.0).reshape(3, 4).T, np.arange(12.0)[::2], np.arange(3.0)],
    "objects": [np.array([1, "two", None], dtype=object), np.array([3.0, 4], dtype=object)],
    "nested": [{"a": np.arange(2), "b": (1, 2.0)}, [np.ones(2), "text"]],
    "texts": [np.array(["one", "two"]), np.array(["2020-01-01"], dtype="datetime64[D]")],
}


@pytest.mark.parametrize("name", MANY)
def test_of_many_is_that_of_one_after_the_other(name: str) -> None:
    values = MANY[name]
    total = 7
    for value in values:
        total = checksum(value, total)
    assert checksum_of_many(values, 7) == total
    for at in range(len(values)):
        assert checksum_of_many(values[at:], checksum_of_many(values[:at], 7)) == total
    assert not values or total != 7
    zeros = np.zeros(2, np.float32)
    assert checksum(torch.zeros(2)) == checksum(zeros) != checksum([{"a": (zeros,)}])


def test_objects_are_told_apart_by_what_they_are_and_not_by_where() -> None:
    one, other = ([np.array([f"{1 + 1}{word}", None], dtype=object)] * 2 for word in ("x", "x"))
    assert checksum_of_many(one) == checksum_of_many(other)
    assert checksum_of_many(one) != checksum_of_many([np.array(["2y", None], dtype=object)] * 2)
