"""Runs in epochs that are stopped and go on, bit for bit."""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from epoch_parts import epoch_runner, go_on
from resume_parts import Noisy

from pfrl_like.experiments.checkpoints import saved_in
from pfrl_like.storage.plain_tensors import checksum

ROOT = Path(__file__).parents[3]


class Stopped(Exception):
    """Ends a run in the middle of an epoch."""


def stopped_at(t: int) -> Any:
    def stop(clock: Any) -> None:
        if clock.t == t:
            raise Stopped

    return stop


def table(path: Path, delimiter: str) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return [
            {name: text for name, text in row.items() if name != "elapsed"}
            for row in csv.DictReader(file, delimiter=delimiter)
        ]


def left(outdir: Path) -> dict[str, Any]:
    """What a run has left that tells neither of the time nor of the process."""
    runner = epoch_runner(outdir)
    epochs = runner.restore()
    saved = saved_in(str(outdir))[0]
    of_the_process = {"buffers", "agent", "versions", "hardware", "settings"}
    state = {name: part for name, part in saved.state().items() if name not in of_the_process}
    for name, number in (("Evaluator", 3), ("EpochRunner", 2)):  # what tells of the time
        del state["parts"][name]["dict"][number]
    del state["parts"]["CSVLogger"]
    agent, buffer = runner.algorithm.agent, runner.algorithm.replay_buffer
    batch = buffer.sample_batch(20, 0.99)
    tensors = {name: part.state_dict() for name, part in (("model", agent.model), ("target", agent.target_model))}
    return {
        "record": (epochs, saved.t), "state": state, "average": runner.algorithm.average_return, "length": len(buffer),
        "statistics": agent.get_statistics(), "epochs": table(outdir / "epochs.csv", ","),
        "episodes": table(outdir / "metrics.csv", ","), "scores": table(outdir / "scores.txt", "\t"),
        "tensors": {f"{part}.{key}": value.tolist() for part, state in tensors.items() for key, value in state.items()},
        "moments": [value["exp_avg"].tolist() for value in agent.optimizer.state_dict()["state"].values()],
        "drawn": [part.tolist() for part in (batch.obs, batch.reward, batch.weight)],
        "best": sorted(path.name.split("-")[0] for path in (outdir / "best").iterdir()),
    }  # fmt: skip


def go_on_elsewhere(outdir: str, n_epochs: int, batch_size: int | None) -> None:
    """`go_on` in a process of its own."""
    command = f"from epoch_parts import go_on; go_on({outdir!r}, {n_epochs}, {batch_size})"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
    subprocess.run([sys.executable, "-c", command], check=True, env=os.environ | {"PYTHONPATH": paths})


@pytest.mark.parametrize(
    ("batch_size", "resume"), [(None, go_on), pytest.param(17, go_on_elsewhere, marks=pytest.mark.slow)]
)
def test_a_run_that_was_broken_off_goes_on_as_if_it_had_not_been(
    tmp_path: Path, batch_size: int | None, resume: Any
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    epoch_runner(whole).train(4, batch_size)
    steps = [int(row["step"]) for row in table(whole / "epochs.csv", ",")]
    with pytest.raises(Stopped):
        epoch_runner(broken, hooks=[stopped_at(steps[1] + 5)]).train(4, batch_size)
    assert len(table(broken / "epochs.csv", ",")) == 2
    assert saved_in(str(broken))[1].t == steps[1]
    assert saved_in(str(broken))[1].state()["source"]["running"] == (batch_size is not None)
    resume(str(broken), 4, batch_size)
    assert left(broken) == left(whole)


def test_the_average_of_the_last_epoch_is_known_again(tmp_path: Path) -> None:
    average = epoch_runner(tmp_path).train(1)
    runner = epoch_runner(tmp_path)
    runner.restore()
    assert runner.algorithm.average_return == average and runner.train(1) == average


def test_an_environment_that_comes_elsewhere_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    epoch_runner(tmp_path).train(1, 17)
    step = Noisy.step
    monkeypatch.setattr(Noisy, "step", lambda self, action: step(self, 1 - action))
    go_on(str(tmp_path), 2, 17)
    assert "did not come to where it was" in caplog.text and len(table(tmp_path / "epochs.csv", ",")) == 2


def test_the_snapshot_before_serves_if_the_newest_one_is_damaged(tmp_path: Path) -> None:
    epoch_runner(tmp_path).train(3)
    for saved in saved_in(str(tmp_path))[:2]:  # the end of the run, and its last epoch
        [state] = Path(saved.path).glob("run/state-*.json")
        state.write_text(state.read_text().replace("exact", "inexact"))
    assert epoch_runner(tmp_path).restore() == 2


def test_training_goes_on_from_what_there_is(tmp_path: Path) -> None:
    epoch_runner(tmp_path).train(2, resume=True)
    runner = epoch_runner(tmp_path)
    runner.train(3, resume=True)
    assert runner.epoch == 3 and len(table(tmp_path / "epochs.csv", ",")) == 3


def test_a_run_that_was_killed_before_its_first_snapshot_begins_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Stopped):
        epoch_runner(tmp_path, hooks=[stopped_at(3)]).train(1)
    for path in tmp_path.glob("*_except"):  # as if it had been killed
        shutil.rmtree(path)
    epoch_runner(tmp_path).train(1, resume=True)
    assert "no checkpoint was saved to its end, so that the run begins anew" in caplog.text
    assert "give resume=True" not in caplog.text


def test_observations_of_any_form_are_told_apart() -> None:
    one, other = np.zeros(2, np.float32), np.ones(2, np.float32)
    for made in (lambda x: x, lambda x: {"b": x, "a": one}, lambda x: (one, x), lambda x: [{"a": (x,)}]):
        assert checksum(made(one)) == checksum(made(one.copy())) != checksum(made(other))
    assert checksum(torch.zeros(2)) == checksum(one)
