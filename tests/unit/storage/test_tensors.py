"""State dicts through `.pt` files. What hostile files do: test_hostile_files.py."""

import collections
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import atomic_write
from pfrl_like.storage.plain_tensors import plain_tensors, tensor_writer
from pfrl_like.storage.tensors import load_tensors

DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
DTYPES += ["uint8", "int8", "int16", "int32", "int64", "bool"]


def round_trip(value: Any, folder: Path) -> Any:
    path = folder / "file.pt"
    atomic_write(path, tensor_writer(value, path))
    return load_tensors(str(path))


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back(dtype: str, tmp_path: Path) -> None:
    value = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, dtype))
    loaded = round_trip({"x": value}, tmp_path)["x"]
    assert loaded.dtype == value.dtype
    assert torch.equal(loaded, value)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3, 1, 2)], ids=str)
def test_every_shape_comes_back(shape: tuple[int, ...], tmp_path: Path) -> None:
    value = torch.randn(shape)
    loaded = round_trip([value], tmp_path)[0]
    assert loaded.shape == shape
    assert torch.equal(loaded, value)


def test_plain_values_come_back_with_their_types(tmp_path: Path) -> None:
    value = {"a": (1, -(2**70), 2**31, 0.5, True, None), "b": ["text ü", [], (), {}], 3: {"x": (1, 2, 3)}}
    loaded = round_trip(value, tmp_path)
    assert repr(loaded) == repr(value)


def test_module_versions_come_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    loaded = round_trip(model.state_dict(), tmp_path)
    assert loaded._metadata == model.state_dict()._metadata
    model.load_state_dict(loaded)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Rprop", "LBFGS", "NAdam"])
def test_optimiser_states_come_back(optimizer: str, tmp_path: Path) -> None:
    model = nn.Linear(2, 3)
    live = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)

    def loss() -> torch.Tensor:
        live.zero_grad()
        value = model(torch.ones(1, 2)).square().sum()
        value.backward()
        return value

    for _ in range(3):
        live.step(loss)
    expected = live.state_dict()
    assert repr(round_trip(expected, tmp_path)) == repr(expected)


def test_schedules_come_back(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 3, 5])
    loaded = round_trip(schedule.state_dict(), tmp_path)
    assert loaded["milestones"] == collections.Counter({3: 2, 5: 1})
    schedule.load_state_dict(loaded)


def test_torch_reads_the_files_with_weights_only(tmp_path: Path) -> None:
    model = nn.LSTM(2, 3)
    atomic_write(tmp_path / "file.pt", tensor_writer(model.state_dict(), "file"))
    model.load_state_dict(torch.load(tmp_path / "file.pt", weights_only=True))


def test_files_of_torch_save_are_read(tmp_path: Path) -> None:
    value = {"parameter": nn.Parameter(torch.ones(2)), "size": torch.Size([1, 2]), "column": torch.ones(3, 2).T[1]}
    torch.save(value, tmp_path / "file.pt")
    loaded = load_tensors(str(tmp_path / "file.pt"))
    assert loaded["size"] == (1, 2)
    assert torch.equal(loaded["parameter"], torch.ones(2))
    assert torch.equal(loaded["column"], torch.ones(3))


def test_tensors_that_shared_a_storage_come_back_apart(tmp_path: Path) -> None:
    storage = torch.arange(6.0)
    torch.save([storage, storage[2:4]], tmp_path / "file.pt")
    whole, part = load_tensors(str(tmp_path / "file.pt"))
    whole.zero_()
    assert part.tolist() == [2, 3]
    assert part.untyped_storage().nbytes() == 8


def test_a_tensor_saved_in_several_places_comes_back_as_one(tmp_path: Path) -> None:
    tied = torch.ones(1).expand(100_000)
    torch.save([tied] * 200, tmp_path / "file.pt")
    loaded = load_tensors(str(tmp_path / "file.pt"), max_bytes=500_000)
    assert len(loaded) == 200
    assert all(part is loaded[0] for part in loaded)
    assert torch.equal(loaded[0], tied)


def test_tied_weights_come_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    expected = {name: value.clone() for name, value in model.state_dict().items()}
    torch.save(model.state_dict(), tmp_path / "file.pt")
    with torch.no_grad():
        model[0].weight.zero_()
    model.load_state_dict(load_tensors(str(tmp_path / "file.pt")))
    assert all(torch.equal(value, expected[name]) for name, value in model.state_dict().items())


def test_a_view_is_written_without_what_it_looks_at(tmp_path: Path) -> None:
    round_trip({"x": torch.zeros(1_000_000)[:1]}, tmp_path)
    assert (tmp_path / "file.pt").stat().st_size < 5000


def test_an_expanded_tensor_is_written_whole(tmp_path: Path) -> None:
    assert round_trip([torch.ones(1).expand(3)], tmp_path)[0].tolist() == [1, 1, 1]


def test_an_expanded_tensor_of_torch_save_is_read(tmp_path: Path) -> None:
    torch.save([torch.ones(1).expand(3)], tmp_path / "file.pt")
    loaded = load_tensors(str(tmp_path / "file.pt"))[0]
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


@pytest.mark.parametrize(
    "value",
    [
        {"x": np.zeros(2)},
        {"x": {1, 2}},
        {"x": b"bytes"},
        {"x": nn.Linear(1, 1)},
        {"x": torch.zeros(2).to_sparse()},
        {"x": torch.zeros(2, device="meta")},
        {"x": torch.zeros(2, dtype=torch.uint16)},
        {"x": torch.zeros([1] * 17)},
        {"x": nn.UninitializedParameter()},
        {"x": 1 << 2000},
        {"x": {(1 << 61) - 1: 1}},
        {"x": {(1, 2): 0}},
        {"x": "long" * 3_000_000},
    ],
    ids=lambda value: f"{type(value['x']).__name__} {str(value['x'])[:30]}",
)
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    with pytest.raises(CheckpointError, match="file: x|file: the value"):
        plain_tensors(value, "file")


@pytest.mark.filterwarnings("ignore:.*quantize")
def test_a_quantised_tensor_is_not_written() -> None:
    with pytest.raises(CheckpointError, match="x is a sparse, quantised"):
        plain_tensors({"x": torch.quantize_per_tensor(torch.zeros(2), 1.0, 0, torch.qint8)}, "file")


def test_a_value_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CheckpointError, match="holds itself"):
        plain_tensors(loop, "file")


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
