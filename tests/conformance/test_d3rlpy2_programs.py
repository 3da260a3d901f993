"""Programs as users of d3rlpy 2 write them do here what they do with d3rlpy 2.8.1, after a change of their imports.

Equal for the same seed are: names, dtypes and shapes of arrays (of some, their values), names of metrics, paths of
files (without times), in files the objects of JSON and the header, epochs and steps of CSV. Returns of trained policies
are compared over three seeds: the mean of ours lies between the least and the largest of d3rlpy's, or beyond by at most
the difference of these two. `tests/peers/d3rlpy2_records.py` wrote the records.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peer_libraries import TESTS
from peers import d3rlpy2_records
from peers.d3rlpy2_records import SEEDS, record, records

RECORDS = TESTS / "data/peers/d3rlpy2_programs"
PROGRAMS = sorted(path.stem for path in d3rlpy2_records.PROGRAMS.glob("*.py"))
#: Programs that are short enough for the default run.
SHORT = {"dataset_handling", "loggers", "online_from_same_parameters", "own_pickers", "save_and_load"}
#: Parts of a program's record that differ here, as regular expressions of their paths, and why.
DIFFERENCES = {"deployment": {"/files/policy.onnx:": "the environment of d3rlpy has no ONNX"}}


def with_own_imports(program: str) -> str:
    """A program that imports the layer wherever it imported d3rlpy."""
    program = re.sub(r"^import d3rlpy$", "import pfrl_like.d3rlpy as d3rlpy", program, flags=re.MULTILINE)
    return re.sub(r"^from d3rlpy\b", "from pfrl_like.d3rlpy", program, flags=re.MULTILINE)


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two records differ: numbers by more than rounding, or anything else."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        missing = [f"{path}/{key}: only {'here' if key in ours else 'in d3rlpy'}" for key in {*ours} ^ {*theirs}]
        return missing + [each for key in {*ours} & {*theirs} for each in _below(ours[key], theirs[key], path, key)]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [each for i, (our, their) in pairs for each in _below(our, their, path, i)]
    if isinstance(ours, float) and isinstance(theirs, int | float):
        return [] if np.isclose(ours, theirs, rtol=1e-5, atol=1e-6, equal_nan=True) else [f"{path}: {ours} {theirs}"]
    return [] if ours == theirs else [f"{path}: {ours!r} here, {theirs!r} in d3rlpy"]


def _below(ours: Any, theirs: Any, path: str, key: Any) -> list[str]:
    return differences(ours, theirs, f"{path}/{key}")


def assert_same_record(program: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    ours, theirs = ({**each, "returns": len(each["returns"])} for each in (ours, theirs))
    known = DIFFERENCES.get(program, {})
    found = [each for each in differences(ours, theirs) if not any(re.match(path, each) for path in known)]
    assert not found, "\n".join(sorted(found))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("program", sorted(SHORT))
def test_a_short_program_leaves_what_it_leaves_with_d3rlpy(program: str, tmp_path: Path) -> None:
    theirs = d3rlpy2_records.read(RECORDS / f"{program}.json")[0]
    assert_same_record(program, record(program, SEEDS[0], tmp_path, with_own_imports), theirs)


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_does_what_it_does_with_d3rlpy(program: str) -> None:
    theirs, ours = d3rlpy2_records.read(RECORDS / f"{program}.json"), records(program, with_own_imports)
    for our, their in zip(ours, theirs, strict=True):
        assert_same_record(program, our, their)
    expected, found = (np.array([each["returns"] for each in both]) for both in (theirs, ours))
    low, high = expected.min(0), expected.max(0)
    inside = (found.mean(0) >= low - (high - low)) & (found.mean(0) <= high + (high - low))
    assert inside.all(), f"returns {found.tolist()} here, {expected.tolist()} in d3rlpy"


def test_every_program_has_a_record() -> None:
    assert sorted(path.stem for path in RECORDS.glob("*.json")) == PROGRAMS
