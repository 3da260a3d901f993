"""Deliberate faults in the package turn tests red; `benchmarks/faults.py` holds them."""

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="benchmarks/ is not here")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("faults")


def test_every_fault_fits_the_source(faults: Any) -> None:
    for fault in faults.FAULTS:
        source = (ROOT / "pfrl_like" / fault.file).read_text()
        assert source.count(fault.line) == 1, fault.what
        compile(source.replace(fault.line, fault.mistake), fault.file, "exec")


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_fault_turns_a_test_red(faults: Any) -> None:
    assert faults.main() == 0
