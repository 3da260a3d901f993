"""d3rlpy 2.8.1 reads files of `pfrl_like.d3rlpy` and continues from them, and the reverse, optimisers included."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conformance.test_d3rlpy_runs import in_our_order
from peer_libraries import answer, asks
from peers import d3rlpy_2_files, d3rlpy_datasets

from pfrl_like import d3rlpy

Findings = dict[str, Any]


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Findings]:
    """A folder of files that both have written, and what d3rlpy finds in them."""
    folder = tmp_path_factory.mktemp("files")
    d3rlpy_2_files.write(d3rlpy, folder)
    with np.load(answer("d3rlpy", "peers/d3rlpy_2_files.py", folder / "findings.npz")) as file:
        return folder, dict(file)


def assert_continues(path: Path, theirs: Findings) -> None:
    """The algorithm in a file predicts as d3rlpy does, and makes the same next update."""
    name = path.parent.name

    def draws(i: int) -> list[Any]:
        drawn = [theirs[f"drawn/{i}/{j}"] for j in range(sum(f"drawn/{i}/" in key for key in theirs))]
        if i == 0:  # noise of several actions in each state
            return [each.reshape(-1, each.shape[-1]) for each in drawn]
        return [in_our_order(name, each) for each in drawn]

    ours = d3rlpy_2_files.continued(d3rlpy_2_files.read(d3rlpy, path), d3rlpy, draws)
    assert ours.keys() == {key for key in theirs if not key.startswith("drawn/")}
    for key, each in ours.items():
        assert each.dtype == theirs[key].dtype, key
        assert np.allclose(each, theirs[key], rtol=1e-5, atol=1e-5), (path, key)


@asks("d3rlpy")
@pytest.mark.parametrize("name", d3rlpy_2_files.ALGORITHMS)
def test_d3rlpy_continues_from_our_files_and_we_from_its(name: str, findings: tuple[Path, Findings]) -> None:
    folder, found = findings
    for kind in ("pt", "d3", "next"):
        start = f"{name}/{kind}/"
        theirs = {key.removeprefix(start): each for key, each in found.items() if key.startswith(start)}
        paths = [folder / name / f"model_2.{kind}"] if kind != "next" else (folder / name).glob("theirs.*")
        for path in paths if theirs else []:
            assert_continues(path, theirs)


@asks("d3rlpy")
@pytest.mark.parametrize("name", d3rlpy_2_files.DATASETS)
def test_datasets_are_read_by_d3rlpy_and_its_own_here(name: str, findings: tuple[Path, Findings]) -> None:
    folder, found = findings
    written = d3rlpy.dataset.MDPDataset(*d3rlpy_datasets.arrays(*d3rlpy_2_files.DATASETS[name]))
    with open(folder / f"theirs_{name}.h5", "rb") as file:
        datasets = written, d3rlpy.dataset.ReplayBuffer.load(file, d3rlpy.dataset.InfiniteBuffer())
    for dataset in datasets:
        for key, each in d3rlpy_datasets.transitions_of(dataset).items():
            np.testing.assert_array_equal(each, found[f"{name}/{key}"], key)
