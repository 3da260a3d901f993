"""SIGKILL at random moments of saving leaves nothing unreadable; benchmarks/kill_saves.py is the long form."""

import json
import os
from pathlib import Path

import pytest
from python_process import output_of
from time_parts import PATIENCE

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "kill_saves.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.exists(), reason="benchmarks/ is not here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_during_saves_leave_everything_readable_and_lose_nothing(tmp_path: Path, kills: int) -> None:
    output = output_of(str(SCRIPT), "--kills", str(kills), folder=tmp_path, timeout=6 * PATIENCE)
    lines = [json.loads(line) for line in output.splitlines()]
    modes = ["agent", "new names", "buffer", "increments", "persistent", "checkpoint"]
    assert [line["mode"] for line in lines] == modes
    for line in lines:
        assert line["kills"] == kills
        assert not line["unreadable"] + line["acknowledged lost"] + line["more than one interval lost"]
