"""SIGKILL at random moments of saving leaves nothing unreadable; benchmarks/kill_saves.py is the long form."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from time_parts import PATIENCE

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "kill_saves.py"
pytestmark = [
    pytest.mark.skipif(not SCRIPT.exists(), reason="benchmarks/ is not here"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_during_saves_leave_everything_readable_and_lose_nothing(tmp_path: Path, kills: int) -> None:
    result = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", str(kills)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    modes = ["agent", "new names", "buffer", "increments", "persistent", "checkpoint"]
    assert [line["mode"] for line in lines] == modes
    for line in lines:
        assert line["kills"] == kills
        assert not line["unreadable"] + line["acknowledged lost"] + line["more than one interval lost"]
