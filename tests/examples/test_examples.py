"""Every example runs a few steps on a bare CPU and leaves what it says it leaves."""

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.py"))

#: An update needs a filled buffer: the trainers are told to begin early, so that they learn, too.
EARLY = ["--replay-start-size", "40", "--minibatch-size", "8", "--eval-n-runs", "1"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """Run an example in an empty folder as its command line would, and return what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(example: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [example, *arguments])
        runpy.run_path(str(EXAMPLES / example), run_name="__main__")
        return capsys.readouterr().out

    return run


def test_parts_are_checked(run):
    assert "every part keeps its contracts" in run("check_your_parts.py")


@pytest.mark.parametrize("example", [name for name in NAMES if name != "check_your_parts.py"])
def test_example_runs_a_hundred_steps(example, run):
    assert run(example, "--steps", "100", *(EARLY if example.startswith("gym/") else []))


def test_quickstart_leaves_an_agent_and_a_learning_curve(run, tmp_path):
    output = run("quickstart.py", "--steps", "100", "--eval-interval", "50", "--eval-n-runs", "2")
    assert "mean return over 2 episodes" in output
    (outdir,) = (tmp_path / "results/quickstart").iterdir()
    for name in ("agent/manifest.json", "scores.txt", "learning_curve.svg", "report.html"):
        assert (outdir / name).stat().st_size > 0, name


def test_a_saved_agent_can_be_demonstrated(run, tmp_path):
    output = run("gym/train_dqn.py", "--steps", "60", *EARLY)
    (saved,) = tmp_path.glob("results/*/60_finish")
    told = output.split("--load ")[1].strip()
    assert saved.samefile(told)
    assert "mean:" in run("gym/train_dqn.py", "--demo", "--load", told, "--eval-n-runs", "1")


@pytest.mark.parametrize("env", ["Pendulum-v1", "FrozenLake-v1"])
@pytest.mark.parametrize("example", ["gym/train_dqn.py", "gym/train_categorical_dqn.py"])
def test_environments_that_do_not_fit_are_refused(run, example, env):
    with pytest.raises(SystemExit, match=f"{env} has the observations .* needs vectors and discrete actions"):
        run(example, "--env", env)


def test_fewer_steps_than_a_minibatch_are_enough(run):
    assert "after 3 steps" in run("custom_q_function.py", "--steps", "3")
