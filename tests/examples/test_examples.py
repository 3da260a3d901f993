"""Every example runs a few steps on a bare CPU and leaves what it says it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(str(path.relative_to(ROOT / "examples")) for path in (ROOT / "examples").rglob("*.py"))


def run(example: str, folder: Path, *arguments: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "examples" / example), *arguments]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs_a_hundred_steps(example: str, tmp_path: Path) -> None:
    # An update needs a filled buffer: the trainers are told to begin early, so that they learn, too.
    early = ["--replay-start-size", "50", "--eval-n-runs", "1"] if example.startswith("gym/") else []
    assert run(example, tmp_path, "--steps", "100", *early)


def test_quickstart_leaves_an_agent_and_a_learning_curve(tmp_path: Path) -> None:
    output = run("quickstart.py", tmp_path, "--steps", "100", "--eval-interval", "50", "--eval-n-runs", "2")
    assert "mean return over 2 episodes" in output
    (outdir,) = (tmp_path / "results/quickstart").iterdir()
    for name in ("agent/manifest.json", "scores.txt", "learning_curve.svg", "report.html"):
        assert (outdir / name).stat().st_size > 0, name


def test_a_saved_agent_can_be_demonstrated(tmp_path: Path) -> None:
    run("gym/train_dqn.py", tmp_path, "--steps", "60", "--replay-start-size", "50", "--eval-n-runs", "1")
    (saved,) = tmp_path.glob("results/*/60_finish")
    assert "mean:" in run("gym/train_dqn.py", tmp_path, "--demo", "--load", str(saved), "--eval-n-runs", "1")
