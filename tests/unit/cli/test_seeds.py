"""Training of several seeds side by side. Tests of default length start a small program in place of the children."""

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_parts import TRAIN, records, run, started, wait_for

from pfrl_like.cli import main

CHILD = """#!{python} -S
import os, signal, sys, time
seed = int(sys.argv[-1])
{body}
print(f"score {{seed}}.5 in results/run{{seed}}")
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the program of the children by a script."""

    def child(body: str) -> None:
        path = tmp_path / "child"
        path.write_text(CHILD.format(python=sys.executable, body=body))
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return child


def test_a_table_has_score_and_directory_of_each_seed(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    child("print('step 10')")
    assert main(["train", "--agent", "dqn", "--seeds", "3", "--seed", "4", "--jobs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == [
        "seed  score       directory",
        *(f"{seed:<6}{seed}.5         results/run{seed}" for seed in (4, 5, 6)),
    ]
    assert {f"seed {seed} | step 10" for seed in (4, 5, 6)} <= {*lines}


def test_a_score_that_is_older_than_its_run_has_its_step(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    child("print('score 7.5 at step 1,234 in results/run'); sys.exit()")
    assert main(["train", "--seeds", "2", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1     7.5 at step 1,234 results/run"


def test_one_failed_seed_makes_status_1_and_the_others_finish(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    child("if seed == 1: print('no memory'); sys.exit(1)")
    assert main(["train", "--seeds", "3", "--quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "1     failed (1)  no memory" and "results/run2" in lines[3] and len(lines) == 4


def test_an_invalid_option_is_said_once(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    child("print('pfrl-like: error: argument --agent: x', file=sys.stderr); sys.exit(2)")
    assert main(["train", "--seeds", "3", "--jobs", "2"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", "pfrl-like: error: argument --agent: x\n")


def test_a_table_is_printed_if_other_seeds_have_finished(child: Any, capsys: pytest.CaptureFixture[str]) -> None:
    child("if seed == 1: print('x'); sys.exit(2)")
    assert main(["train", "--seeds", "3", "--jobs", "1"]) == 2
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[-3:]] == ["0.5", "failed", "not"]


def test_the_first_seed_is_that_of_the_config(child: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    child("")
    config = tmp_path / "run.toml"
    command = "train", "--config", str(config), "--seeds", "2", "--quiet"
    config.write_text("seed = 7")
    assert main(command) == 0 and [line[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["7", "8"]
    assert main([*command, "--seed", "0"]) == 0 and capsys.readouterr().out.splitlines()[1][0] == "0"
    for text in ("seed = -1", "seed = 'x'", "seed ="):
        config.write_text(text)
        assert main(command) == 2 and "argument --config: " in capsys.readouterr().err


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_all_children(child: Any, signum: int, capsys: pytest.CaptureFixture[str]) -> None:
    child(f"if seed == 1: os.kill(os.getppid(), {int(signum)})\ntime.sleep(600)")
    before = signal.getsignal(signum)
    assert main(["train", "--seeds", "3", "--jobs", "2"]) == 128 + signum
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[-3:]] == ["interrupted", "interrupted", "not"]
    assert signal.getsignal(signum) is before


@pytest.mark.slow
def test_killed_and_interrupted_seeds_finish_at_the_next_start(tmp_path: Path) -> None:
    results = tmp_path / "results"
    command = *TRAIN, "--steps", "1000", "--seeds", "3", "--jobs", "2"
    for signum, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)):
        before = len([*results.glob("*/*_checkpoint")])
        with started(tmp_path, *command) as process:
            wait_for(results, "*/*_checkpoint", process, before + 1)
            os.killpg(process.pid, signum)
            process.communicate()
        assert process.returncode == status
    interrupted = [each for each in records(results) if each["outcome"].startswith("interrupted at step ")]
    assert interrupted and all([*Path(each["outdir"]).glob(f"{each['t']}_*")] for each in interrupted)
    status, out, _ = run(tmp_path, *command)
    assert status == 0 and "resuming results/" in out
    finished = records(results)
    assert [record["outcome"] for record in finished] == ["finished"] * 3
    assert [record["t"] for record in finished] == [1000] * 3
    assert sorted(record["outdir"][-5:] for record in finished) == ["seed0", "seed1", "seed2"]
    status, out, _ = run(tmp_path, *command)
    assert (status, out.count("has finished before")) == (0, 3) and len(records(results)) == 3


@pytest.mark.slow
def test_two_commands_that_start_at_once_take_different_runs(tmp_path: Path) -> None:
    results, command = tmp_path / "results", (*TRAIN, "--steps", "1000000", "--seed", "0")
    for n_runs in (2, 3):
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(started(tmp_path, *command)) for _ in range(n_runs)]
            wait_for(results, "*/owner.json", processes[0], n_runs)
            wait_for(results, "*/run.json", processes[0], n_runs)
            owners = {json.loads(path.read_text())["pid"] for path in results.glob("*/owner.json")}
            assert owners == {process.pid for process in processes} and len([*results.iterdir()]) == n_runs
            for process in processes:
                process.send_signal(signal.SIGINT)
                assert "the same command continues the run" in process.communicate()[1] and process.returncode == 130
