"""Runs whose files may not grow for a while, or to the end, as on a full disk, and which go on when there is room."""

import itertools
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from disk_parts import let_files_grow
from lab.children import finished
from stopped_runs import RUNNERS, TABLES, Plan, differences, go
from time_parts import PATIENCE

from pfrl_like.errors import CheckpointError
from pfrl_like.experiments.checkpoints import saved_in

AGENTS = dict(zip(RUNNERS, ("DQN", "PPO", "SoftActorCritic", "DoubleDQN", "CQL", "DDPG"), strict=True))
FAST = [("train_agent_with_evaluation", "warn", "for a while")]


def plan_of(runner: str) -> Plan:
    """A run with several checkpoints, and without a buffer of which the files are more than copies."""
    for number in itertools.count():
        plan = Plan(AGENTS[runner], runner, "global streams", number)
        enough = plan.sizes["checkpoint_freq"] * 3 < plan.sizes["steps"]
        if enough and "Persistent" not in str(plan.case):
            return plan
    raise AssertionError


class FullDisk:
    """A hook that lets no file grow, from the first checkpoint on.

    Args:
        outdir: Run directory.
        length: Steps until there is room again; None for none.
    """

    def __init__(self, outdir: Path, length: int | None) -> None:
        self.outdir, self.length = outdir, length
        self.since: int | None = None

    def __call__(self, clock: Any) -> None:
        if self.since is None and any(saved.is_checkpoint for saved in saved_in(str(self.outdir))):
            self.since = clock.t
        over = self.since is not None and self.length is not None and clock.t > self.since + self.length
        let_files_grow(None if self.since is None or over else 1)


def main(runner: str, choice: str, lasting: str, folder: Path) -> dict[str, Any]:
    """Run with room, on a full disk, and again with room; returns what there is to say of it."""
    plan, outdir = plan_of(runner), folder / "full" / "run"
    whole = go(plan, folder / "whole")
    disk = FullDisk(outdir, plan.sizes["checkpoint_freq"] if lasting == "for a while" else None)
    left, error = {}, None
    try:
        left = go(plan, folder / "full", [disk], choice)
    except CheckpointError as caught:
        error = [os.path.relpath(caught.path, outdir), caught.reason, *caught.__notes__]
    let_files_grow(None)
    tables = {name: ((folder / at / "run" / name).read_bytes() for at in ("whole", "full")) for name in TABLES}
    return {
        "differences": differences(whole, left),
        "torn": [name for name, (all_of_it, part) in tables.items() if not all_of_it.startswith(part)],
        "error": error,
        "directories": sorted(path.name for path in outdir.iterdir() if path.name[0].isdigit()),
        "record": json.loads((outdir / "run.json").read_text()),
        "differences in the end": differences(whole, go(plan, folder / "full")),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "choice", "lasting"),
    [
        pytest.param(*case, marks=[] if case in FAST else [pytest.mark.slow])
        for case in itertools.product(AGENTS, ("warn", "raise"), ("for a while", "to the end"))
        if case[1:] != ("raise", "for a while")
    ],
)
def test_a_run_outlives_a_full_disk(runner, choice, lasting, tmp_path):
    child = finished("test_full_disk_runs", runner, choice, lasting, str(tmp_path), timeout=4 * PATIENCE)
    told = json.loads(child.stdout.splitlines()[-1])
    names = re.findall(r"^(\S+) could not be saved: .*File too large", child.stderr, re.MULTILINE)
    assert names and len(names) == len({*names}) and "Traceback" not in child.stderr
    assert told["differences in the end"] == told["torn"] == []
    if choice == "raise":
        name, reason, *notes = told["error"]
        assert reason == "cannot be written: File too large" and name.partition("/")[0] not in names
        assert notes[-1].endswith(f"the newest complete save is {told['directories'][-1]}")
        assert len(told["directories"]) == 1
    elif lasting == "for a while":
        assert told["differences"] == [] and told["record"]["outcome"] == "finished"
        assert {*told["record"].get("not_saved", {})} <= {"best"}
    else:
        assert "trace.bin" in names or runner == "EpochRunner"


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], Path(sys.argv[4]))))
