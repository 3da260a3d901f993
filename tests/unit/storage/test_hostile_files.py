"""State dicts made to harm whoever reads them are refused; tests/lab has those of all other loaders."""

import os
from pathlib import Path

import pytest
import torch
from lab.hostile_tensors import archive, crafted, saved

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.tensors import load_tensors


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


def test_a_cut_state_dict_is_refused(tmp_path: Path) -> None:
    content = saved(torch.nn.Linear(3, 2).state_dict())
    for length in range(0, len(content), 7):
        (tmp_path / "model.pt").write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            load_tensors(str(tmp_path / "model.pt"))
