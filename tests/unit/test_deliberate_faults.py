"""Deliberate faults in the package turn tests red; `benchmarks/faults.py` holds them."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load_faults() -> Any:
    if not (ROOT / "benchmarks/faults.py").exists():
        pytest.skip("benchmarks/ is not here")
    spec = importlib.util.spec_from_file_location("faults", ROOT / "benchmarks/faults.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["faults"] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


def test_every_fault_fits_the_source() -> None:
    for fault in load_faults().FAULTS:
        source = (ROOT / "pfrl_like" / fault.file).read_text()
        assert source.count(fault.line) == 1, fault.what
        compile(source.replace(fault.line, fault.mistake), fault.file, "exec")


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_fault_turns_a_test_red() -> None:
    assert load_faults().main() == 0
