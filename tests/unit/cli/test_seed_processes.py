"""Processes of seeds, on this machine and on the nodes of Ray. The slow tests start a Ray of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import process_table
import pytest
from cli_parts import ROOT, TRAIN, records, run, started, wait_for

from pfrl_like.cli import main

ON_RAY = "--seeds", "3", "--on", "ray", "--cpus", "0.5"
#: Starts a process that prints nothing and does not end, prints its id, and is killed.
PARENT = """
import os, signal, sys
from pfrl_like.cli.seed_processes import child_process

sys.executable = sys.argv[1]
with child_process([]) as child:
    print(child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
#: An environment that raises an error if the seed is 1, and kills the actor that started its process if it is 2.
ENVIRONMENT = """
import os, signal, sys
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class BadCartPole(CartPoleEnv):
    def step(self, action):
        if sys.argv[-1] == "1":
            raise ValueError("the pole is broken")
        if sys.argv[-1] == "2":
            os.kill(os.getppid(), signal.SIGKILL)
        return super().step(action)

gymnasium.register("BadCartPole-v0", BadCartPole, max_episode_steps=20)
"""


def test_without_ray_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["train", "--agent", "dqn", "--env", "CartPole-v1", "--on", "ray"]) == 2
    message = capsys.readouterr().err
    assert "the option --on ray needs the package ray" in message and "[distributed]" in message


@pytest.mark.parametrize("option", [("--address", "auto"), ("--cpus", "0.5")])
def test_options_of_ray_need_the_option_on(option: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--agent", "dqn", "--env", "CartPole-v1", *option]) == 2
    assert f"argument {option[0]}: has no effect without --on ray" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="only the kernel of Linux ends the process")
def test_a_process_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o700)
    command = [sys.executable, "-c", PARENT, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        _wait_for_end(int(parent.stdout.readline()))
    assert parent.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_seeds_on_ray_resume_after_a_lost_actor_and_after_ctrl_c(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    results, command = tmp_path / "results", (*TRAIN, "--steps", "4000", *ON_RAY)
    with started(tmp_path, *command) as process:
        wait_for(results, "*/*_checkpoint", process)
        folder = next(results.glob("*/*_checkpoint")).parent
        pid = json.loads((folder / "owner.json").read_text())["pid"]
        actor = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(actor, signal.SIGKILL)
        _wait_for_end(pid)
        assert process.stdout is not None
        lines = [""]
        while f"resuming results/{folder.name}" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], process.communicate()
        assert any("lost, and started again: " in line for line in lines)
        members = process_table.of_ray(tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, err) == (130, "")
    assert "the same command continues the run" in out and "seed  score       directory" in out
    assert not process_table.alive(members)
    interrupted = [each for each in records(results) if each["outcome"].startswith("interrupted at step ")]
    assert interrupted and all([*Path(each["outdir"]).glob(f"{each['t']}_*")] for each in interrupted)
    status, out, err = run(tmp_path, *command)
    assert (status, err) == (0, "") and "resuming results/" in out
    assert [(record["outcome"], record["t"]) for record in records(results)] == [("finished", 4000)] * 3
    status, out, _ = run(tmp_path, *command)
    assert (status, out.count("has finished before")) == (0, 3) and len(records(results)) == 3


@pytest.mark.slow
def test_a_seed_that_fails_or_is_lost_too_often_does_not_end_the_others(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    (tmp_path / "bad_cartpole.py").write_text(ENVIRONMENT)
    status, out, err = run(tmp_path, *TRAIN, "--env", "bad_cartpole:BadCartPole-v0", "--steps", "40", *ON_RAY)
    first, second, third = out.splitlines()[-3:]
    assert (status, err) == (1, "")
    assert "results/" in first and "failed" not in first
    assert second == "1     failed (1)  ValueError: the pole is broken"
    assert third.startswith("2     failed (1)  lost 4 times: ")


def _wait_for_end(pid: int) -> None:
    """Wait until a process has ended, at most 60 seconds."""
    deadline = time.monotonic() + 60
    while process_table.alive({pid}):
        assert time.monotonic() < deadline, f"process {pid} runs"
        time.sleep(0.01)
