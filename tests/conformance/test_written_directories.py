"""Directories that were written before load and resume as they did; tests/support/written_directories.py wrote them."""

import re
from pathlib import Path

import numpy as np
import pytest
from written_directories import CASES, numbers_beside, resumed

WRITTEN = Path(__file__).parents[1] / "data" / "written_before"
#: Another processor rounds otherwise, and Adam makes steps of its noise where gradients are nearly zero: one number in
#: a hundred may be off by a part of such a step. A lost optimiser moves nearly all of them by more.
TOLERANCE, TOLERANCE_OF_FEW, FEW = {"rtol": 1e-4, "atol": 1e-4}, {"rtol": 1e-3, "atol": 1e-3}, 0.01


@pytest.mark.representatives(24)
@pytest.mark.parametrize("name", CASES)
def test_a_written_directory_loads_and_resumes_as_it_did(name: str, tmp_path: Path) -> None:
    now = resumed(name, WRITTEN / name, tmp_path / "copy")
    with np.load(numbers_beside(WRITTEN / name)) as archive:
        before = dict(archive)
    assert now.keys() == before.keys()
    for path, numbers in before.items():
        is_exact = numbers.dtype.kind in "biu" or path.startswith("/loaded/")
        if is_exact:
            np.testing.assert_array_equal(now[path], numbers, err_msg=path)
        elif np.mean(~np.isclose(now[path], numbers, **TOLERANCE)) <= FEW:
            np.testing.assert_allclose(now[path], numbers, err_msg=path, **TOLERANCE_OF_FEW)
        else:
            np.testing.assert_allclose(now[path], numbers, err_msg=path, **TOLERANCE)


def test_every_written_directory_has_a_case() -> None:
    assert {str(path.relative_to(WRITTEN).with_suffix("")) for path in WRITTEN.glob("*/*.npz")} == {*CASES}


def test_no_written_file_tells_of_a_machine_or_of_modules_of_the_tests() -> None:
    modules = "|".join(path.stem for path in (Path(__file__).parents[1] / "support").glob("*.py"))
    told = re.compile(rf"(?<![\w.])/(?:home|root|work|Users|tmp)/\w|\b(?:{modules})\b".encode())
    files = [path for path in WRITTEN.rglob("*") if path.is_file()]
    assert not [(path.name, found) for path in files if (found := told.findall(path.read_bytes()))]
