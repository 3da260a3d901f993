"""Runs that are stopped and gone on with leave what they leave without a stop; benchmarks/kill_training.py kills them.

In the default run each runner has one agent that learns fast, the slow one has every agent with every runner.
"""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stopped_runs import NOISES, RUNNERS, Plan, differences, go, plans
from time_parts import PATIENCE

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_training.py"
#: For each runner an agent.
AGENTS = ("PPO", "ACER", "DQN", "REINFORCE", "TD3PlusBC", "DoubleDQN")
FAST = [
    Plan(agent, runner, noise, 2)
    for agent, runner, noise in zip(AGENTS, RUNNERS, itertools.cycle(NOISES), strict=False)
]
CASES = [*FAST, *(pytest.param(*plan, marks=pytest.mark.slow) for plan in plans())]


class Stopped(Exception):
    """Ends a run wherever it is."""


@pytest.mark.parametrize(("agent", "runner", "noise", "number"), CASES)
def test_a_stopped_run_goes_on_as_if_it_had_not_been(
    agent: str, runner: str, noise: str, number: int, tmp_path: Path
) -> None:
    plan = Plan(agent, runner, noise, number)
    behind_a_checkpoint = plan.sizes["checkpoint_freq"] + plan.sizes["n_envs"]
    last = random.Random(f"stop {plan}").randint(behind_a_checkpoint, plan.sizes["steps"])

    def stop(clock: Any) -> None:
        if clock.t >= last:
            raise Stopped

    whole = go(plan, tmp_path / "whole")
    with pytest.raises(Stopped):
        go(plan, tmp_path / "stopped", [stop])
    assert not differences(whole, go(plan, tmp_path / "stopped"))


def test_the_runs_differ_where_the_noise_is_another(tmp_path: Path) -> None:
    left = [go(Plan("DQN", "SyncVectorEnv", "own stream", number), tmp_path / str(number)) for number in (0, 1)]
    assert {"/streams/torch", "/tables/metrics.csv", "/tables/trace.bin"} <= {*differences(*left)}


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs fork and file descriptors of processes")
def test_killed_runs_go_on_as_if_they_had_not_been(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(SCRIPT.parents[1]), *filter(None, sys.path)])
    arguments = ["--trials", "1", "--agents", "PPO", "--results", "results.jsonl", "--folder", str(tmp_path)]
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 as if they had not been stopped, 0 of all said" in result.stdout
