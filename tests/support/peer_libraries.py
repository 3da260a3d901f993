"""PFRL and d3rlpy, which `make peers` installs beside, each in an environment of its own."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("PFRL_LIKE_PEERS", TESTS.parent / ".peers"))


def python_of(library: str) -> Path:
    """The interpreter that has a library."""
    return FOLDER / library / "bin/python"


def asks(library: str) -> Callable[[Any], Any]:
    """Mark a test that needs a library beside."""
    reason = f"{library} is not installed beside: make peers"
    mark = pytest.mark.skipif(not python_of(library).exists(), reason=reason)
    return lambda test: pytest.mark.peers(mark(test))


def answer(library: str, script: str, path: Path, *arguments: str) -> Path:
    """Let a library run a script of the tests, which writes what it finds to a path."""
    command, environ = [python_of(library), TESTS / script, path, *arguments], {**os.environ, "PYTHONPATH": str(TESTS)}
    subprocess.run(command, env=environ, check=True, capture_output=True, timeout=900)
    return path
