"""What unit tests share."""

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of `benchmarks/`, or what scripts share."""
    if not BENCHMARKS.exists():
        pytest.skip("benchmarks/ is not here")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module
