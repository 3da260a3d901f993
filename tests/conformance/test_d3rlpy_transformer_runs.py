"""Decision Transformers of `pfrl_like.d3rlpy` make the ten updates of d3rlpy 2.8.1, and files go both ways.

`tests/data/peers/d3rlpy_transformer_runs.npz` has what `tests/peers/d3rlpy_transformer_runs.py` wrote in d3rlpy's
environment (`make peers`): seed 0 of the cases in `RECORDED`, and below `files/` how d3rlpy continues from its files in
`tests/data/d3rlpy_2_8`. `pytest -m peers` asks it anew: all cases, for five seeds, and for files that we write.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conformance.test_d3rlpy_runs import answer_of, arrays_in, assert_same_run
from numpy.typing import NDArray
from peer_libraries import TESTS, answer, asks
from peers import d3rlpy_runs
from peers import d3rlpy_transformer_runs as transformer_runs

from pfrl_like import d3rlpy

SCRIPT, ANSWERS = "peers/d3rlpy_transformer_runs.py", TESTS / "data/peers/d3rlpy_transformer_runs.npz"
FILES = [TESTS / f"data/d3rlpy_2_8/{name}.d3" for name in ("decision_transformer", "discrete_decision_transformer")]
RECORDED = [
    "continuous, dropout/Adam", "continuous, scalers/Adam", "continuous, GLOBAL/SGD", "discrete, dropout/Adam",
    "discrete, GPTAdamW/Adam",
]  # fmt: skip


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def assert_like_d3rlpy(path: Path, case: str, seed: int) -> None:
    theirs = answer_of(path, *case.split("/"), seed)
    assert "predictions" in theirs
    ours = transformer_runs.answers(d3rlpy, *case.split("/"), seed)
    assert_same_run({name.split("/", 3)[3]: each for name, each in ours.items()}, theirs)


def assert_continues(ours: Mapping[str, NDArray[Any]], theirs: Mapping[str, NDArray[Any]], start: str) -> None:
    for name, each in ours.items():
        np.testing.assert_allclose(each, theirs[f"{start}/{name}"], rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("case", RECORDED)
def test_ten_updates_are_those_of_d3rlpy(case: str) -> None:
    assert_like_d3rlpy(ANSWERS, case, 0)


@asks("d3rlpy")
@pytest.mark.usefixtures("float64")
def test_ten_updates_of_all_cases_are_those_of_d3rlpy(tmp_path: Path) -> None:
    path = answer("d3rlpy", SCRIPT, tmp_path / "answers.npz", "seeds", "0,1,2,3,4")
    for case, kind, seed in itertools.product(transformer_runs.CASES, d3rlpy_runs.OPTIMIZERS, range(5)):
        assert_like_d3rlpy(path, f"{case}/{kind}", seed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_d3rlpy_predicts_and_continues_as_there(path: Path) -> None:
    assert_continues(transformer_runs.continued(d3rlpy, str(path)), arrays_in(ANSWERS), f"files/{path.stem}")


@asks("d3rlpy")
def test_d3rlpy_continues_our_files_and_we_its(tmp_path: Path) -> None:
    paths = [str(tmp_path / path.name) for path in FILES]
    for source, path in zip(FILES, paths, strict=True):
        algo: Any = d3rlpy.load_learnable(str(source))
        algo.update(transformer_runs.minibatch(d3rlpy, source is FILES[1], 7))
        algo.save(path)
    theirs = arrays_in(answer("d3rlpy", SCRIPT, tmp_path / "answers.npz", "files", *paths))
    for path, end in itertools.product(paths, ("", ".again")):
        assert_continues(transformer_runs.continued(d3rlpy, path + end), theirs, Path(path).stem)
