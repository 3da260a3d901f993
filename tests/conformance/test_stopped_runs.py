"""Runs that are stopped and gone on with leave what they leave without a stop; benchmarks/kill_training.py kills them.

In the default run each runner has one agent that learns fast, the slow one has every agent with every runner.
"""

import itertools
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from frame_runs import FramePlan, LargeFramePlan, frame_plans
from python_process import output_of
from stopped_runs import NOISES, RUNNERS, Plan, differences, go, plans
from time_parts import PATIENCE

from pfrl_like.storage import plain_tensors

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


@pytest.mark.representatives(1)
@pytest.mark.parametrize(("agent", "runner", "noise", "number"), CASES)
def test_a_stopped_run_that_resumes_equals_a_whole_run(
    agent: str, runner: str, noise: str, number: int, tmp_path: Path
) -> None:
    check_stopped(Plan(agent, runner, noise, number), tmp_path)


SMALL = [*itertools.islice(frame_plans(), 60)]


@pytest.mark.slow
@pytest.mark.parametrize("plan", [SMALL[9], *(pytest.param(plan, marks=pytest.mark.slow) for plan in SMALL)], ids=str)
def test_a_stopped_run_with_frames_goes_on_as_if_it_had_not_been(
    plan: FramePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_tensors, "_FEW_WORDS", plain_tensors._FEW_WORDS)  # which the plan lowers
    check_stopped(plan, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("plan", [*itertools.islice(frame_plans(LargeFramePlan), 4)], ids=str)
def test_a_stopped_run_with_a_large_rollout_goes_on_as_if_it_had_not_been(
    plan: LargeFramePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_tensors, "_FEW_WORDS", plain_tensors._FEW_WORDS)
    check_stopped(plan, tmp_path)
    largest = max(path.stat().st_size for path in tmp_path.glob("*/run/*/state-tensors-*.pt"))
    assert largest * 4 / 3 > 1 << 27  # as text
    shutil.rmtree(tmp_path)


def check_stopped(plan: Plan, folder: Path) -> None:
    """Check that a run that is stopped behind a checkpoint and gone on with leaves what one leaves that is not."""
    behind_a_checkpoint = plan.sizes["checkpoint_freq"] + plan.sizes["n_envs"]
    last = random.Random(f"stop {plan}").randint(behind_a_checkpoint, plan.sizes["steps"])

    def stop(clock: Any) -> None:
        if clock.t >= last:
            raise Stopped

    whole = go(plan, folder / "whole")
    with pytest.raises(Stopped):
        go(plan, folder / "stopped", [stop])
    assert not differences(whole, go(plan, folder / "stopped"))


@pytest.mark.slow
def test_the_runs_differ_where_the_noise_is_another(tmp_path: Path) -> None:
    left = [go(Plan("DQN", "SyncVectorEnv", "own stream", number), tmp_path / str(number)) for number in (0, 1)]
    assert {"/streams/torch", "/tables/metrics.csv", "/tables/trace.bin"} <= {*differences(*left)}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs fork and file descriptors of processes")
def test_killed_runs_go_on_as_if_they_had_not_been(tmp_path: Path) -> None:
    paths = os.pathsep.join([str(SCRIPT.parents[1]), *filter(None, sys.path)])
    arguments = ["--trials", "1", "--agents", "PPO", "--results", "results.jsonl", "--folder", str(tmp_path)]
    output = output_of(str(SCRIPT), *arguments, folder=tmp_path, path=paths, timeout=6 * PATIENCE)
    assert "1 as if they had not been stopped, 0 of all said" in output
