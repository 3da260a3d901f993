"""Deliberate faults in the package turn tests red; `benchmarks/faults.py` holds them."""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def test_every_fault_fits_the_source(script: Any) -> None:
    for fault in script("faults").FAULTS:
        source = (ROOT / "pfrl_like" / fault.file).read_text()
        assert source.count(fault.line) == 1, fault.what
        compile(source.replace(fault.line, fault.mistake), fault.file, "exec")


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_every_fault_turns_a_test_red(script: Any) -> None:
    assert script("faults").main() == 0
