"""Commands that print lists, scripts and reports."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_parts import TRAIN, Printed

from pfrl_like.cli import main
from pfrl_like.zoo.agents import AGENTS


def printed(capsys: Printed, *words: str) -> str:
    """What a successful command prints."""
    assert main(words) == 0
    return capsys.readouterr().out


def test_agents_presets_and_datasets_are_listed(capsys: Printed) -> None:
    agents = printed(capsys, "list")
    title, *lines = (line.split() for line in agents.splitlines())
    assert title == ["agent", "learns", "actions", "class"] and [line[0] for line in lines] == [*AGENTS]
    found = {line[0]: line[1:4] for line in lines}
    assert found["cql"] == ["offline", "continuous", "CQL:"] and found["a3c"] == ["asynchronous", "any", "A3C:"]
    assert found["dqn"] == ["online", "discrete", "DQN:"]
    presets = printed(capsys, "list", "presets")
    assert "CartPole-v1" in presets and "untuned" in presets and " tuned: " in presets
    datasets = printed(capsys, "list", "datasets")
    assert "pendulum             Pendulum-v1, in this package\n" in datasets and "d4rl:NAME" in datasets


def test_the_settings_of_an_agent_are_listed(capsys: Printed) -> None:
    names = printed(capsys, "list", "settings", "dqn").split()
    assert {"hidden_sizes", "target_update_interval", "n_envs"} <= {*names}
    for words, text in (
        ("settings dqnn", "agent is 'dqnn'"),
        ("settings", "agent is None"),
        ("agents dqn", "got 'dqn'"),
    ):
        assert main(["list", *words.split()]) == 2
        assert f"argument AGENT: {text}" in capsys.readouterr().err


def test_only_the_newest_versions_of_installed_environments_are_listed(capsys: Printed) -> None:
    ids = printed(capsys, "list", "envs").split()
    assert {"CartPole-v1", "Pendulum-v1"} <= {*ids} and "CartPole-v0" not in ids
    assert not [each for each in ids if each.startswith("phys2d/")] or "jax" in sys.modules


def test_show_prints_a_script_with_the_settings(capsys: Printed, tmp_path: Path) -> None:
    script = printed(capsys, "show", "sac", "Pendulum-v1", "--set", "lr=0.5", "--seed", "7", "--steps", "9")
    assert "lr=0.5" in script and "SEED = 7" in script and "steps=9" in script
    compile(script, "script", "exec")


def test_show_names_the_stops_that_its_script_does_not_contain(capsys: Printed, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text('agent = "dqn"\nenv = "CartPole-v1"\nstop_at_score = 475\nstop_after = 0.5\n')
    assert main(["show", "--config", str(config)]) == 0
    script, note = capsys.readouterr()
    compile(script, "script", "exec")
    assert note == (
        "note: the script does not contain stop_at_score = 475 (the argument successful_score) and stop_after = 0.5 "
        "(hooks=[StopAfter(minutes=...)])\n"
    )


def test_report_lists_runs_and_writes_their_reports(capsys: Printed, tmp_path: Path) -> None:
    assert main([*TRAIN, "--steps", "40", "--quiet", "--outdir", str(tmp_path / "runs")]) == 0
    (outdir,) = (tmp_path / "runs").iterdir()
    (outdir / "report.html").unlink()
    capsys.readouterr()
    for path in (outdir, tmp_path / "runs"):
        title, row = printed(capsys, "report", str(path)).splitlines()
        assert title.split()[:3] == ["agent", "environment", "seed"]
        assert row.split()[:4] == ["dqn", "CartPole-v1", "0", "40"]
        assert f"finished, {outdir / 'report.html'}" in row and (outdir / "report.html").exists()
    shutil.copytree(outdir, outdir / "inner")
    assert len(printed(capsys, "report", str(outdir)).splitlines()) == 3
    shutil.rmtree(outdir / "inner")
    (outdir / "run.toml").unlink()
    assert printed(capsys, "report", str(outdir)).splitlines()[1].split()[:3] == ["DQN", "CartPole-v1", "40"]
    assert main(["report", str(tmp_path)]) == 2
    assert "contains no run.json" in capsys.readouterr().err


@pytest.mark.slow
def test_a_command_whose_reader_ends_prints_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m pfrl_like list envs | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1 and done.returncode in (0, 1)
