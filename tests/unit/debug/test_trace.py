"""The traces of runs, and the command that compares two of them."""

import copy
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from traced_run import run

from pfrl_like.cli import main
from pfrl_like.debug.trace import CHANNELS, RECORD, RECORDS, TENSORS, Trace, read_records, read_tensors
from pfrl_like.errors import CheckpointError
from pfrl_like.runs.loop import Clock
from pfrl_like.storage.plain_tensors import checksum
from pfrl_like.wrappers.frames import LazyFrames


@pytest.fixture
def diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Makes two runs, the second with a mishap; returns what the command says of them."""

    def diff(status: int, *flags: str, **mishap: int) -> str:
        run(tmp_path / "a")
        run(tmp_path / "b", **mishap)
        assert main(["diff-runs", str(tmp_path / "a"), str(tmp_path / "b"), *flags]) == status
        return capsys.readouterr().out

    return diff


def test_runs_that_are_the_same_have_the_same_trace(tmp_path: Path, diff: Callable[..., str]) -> None:
    out = diff(0)
    assert "steps: equal up to step 50" in out and "tensors: equal up to step 50" in out
    records = read_records(str(tmp_path / "a"))
    assert records["t"].tolist() == [*range(1, 51)]
    assert all(len(set(records[channel].tolist())) > 10 for channel in CHANNELS)
    assert [*read_tensors(str(tmp_path / "a"))] == [0, 20, 40, 50]


@pytest.mark.slow
def test_another_answer_of_the_environment_is_named(diff: Callable[..., str]) -> None:
    expected = "the first difference is at step 23, in reward; the environment returned a different"
    assert expected in diff(1, reward_at=23)


def test_other_parameters_are_named(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    run(tmp_path / "a")
    monkeypatch.setenv("MKL_NUM_THREADS", "7")
    run(tmp_path / "b", spoil_at=30)
    assert main(["diff-runs", str(tmp_path / "a"), str(tmp_path / "b"), "--no-rerun"]) == 1
    out = capsys.readouterr().out
    assert "the first difference is at step 31, in loss; observations, actions and rewards are equal" in out
    assert "tensors: at step 40 these differ (equal at step 20): model." in out
    assert "settings.MKL_NUM_THREADS: " in out and "and '7' (sums are computed in a different order)" in out


@pytest.mark.parametrize("step_offset", [30, pytest.param(50, marks=pytest.mark.slow)])
def test_what_a_power_cut_has_spoilt_or_lies_beyond_is_cut_off(step_offset: int, tmp_path: Path) -> None:
    run(tmp_path)
    whole, lines = read_records(str(tmp_path)), read_tensors(str(tmp_path))
    with open(tmp_path / RECORDS, "ab") as file, open(tmp_path / TENSORS, "ab") as table:
        file.write(bytes(48))
        table.write(bytes(9) + b"\n")
    with pytest.raises(CheckpointError, match="is not a line of a trace"):
        read_tensors(str(tmp_path))
    run(tmp_path, step_offset=step_offset, steps=55)
    records, again = read_records(str(tmp_path)), read_tensors(str(tmp_path))
    assert (records[:step_offset] == whole[:step_offset]).all() and records["t"].tolist() == [*range(1, 56)]
    kept = {t: sums for t, sums in lines.items() if t <= step_offset}
    assert again.items() >= kept.items() and [*again] == sorted({*kept, 40, 55})


def test_a_long_trace_is_read_up_to_the_step_and_not_into_memory(tmp_path: Path) -> None:
    records = np.zeros(50_000, RECORD)
    records["t"] = records["reward"] = np.arange(1, 50_001)
    (tmp_path / RECORDS).write_bytes(records.tobytes() + b"torn")
    tracemalloc.start()
    trace = Trace(SimpleNamespace(last=None), None, str(tmp_path), None, 45_678)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    trace.flush()
    assert most < records.nbytes // 2 and trace.saved_state()["sums"] == [0, 0, 45_678, 0]
    assert (read_records(str(tmp_path)) == records[:45_678]).all()
    trace.close()


def test_an_empty_trace_is_none(tmp_path: Path) -> None:
    (tmp_path / RECORDS).touch()
    trace = Trace(SimpleNamespace(last=None), None, str(tmp_path), None, 5)
    assert trace.saved_state()["sums"] == [0] * 4 and len(read_records(str(tmp_path))) == 0
    trace.close()


def test_the_checksums_go_on_in_another_process_also_where_the_files_were_lost(tmp_path: Path) -> None:
    source, clock = SimpleNamespace(last=(np.zeros(3), 1, 0.5)), Clock(10)

    def ticks(trace: Trace, name: str, n: int) -> Any:
        for _ in range(n):
            clock.previous_t, clock.t = clock.t, clock.t + 1
            trace(clock)
        trace.flush()
        return read_records(str(tmp_path / name))

    for name in ("whole", "second"):
        (tmp_path / name).mkdir()
    first = Trace(source, None, str(tmp_path / "whole"), None, 0)
    ticks(first, "whole", 3)
    state = json.loads(json.dumps(first.saved_state()))
    whole = ticks(first, "whole", 2)
    clock.t = 3
    second = Trace(source, None, str(tmp_path / "second"), None, 3)
    second.restore_state(state)
    assert (ticks(second, "second", 2) == whole[3:]).all() and whole["t"].tolist() == [1, 2, 3, 4, 5]
    for wrong in ({}, {"t": 3, "sums": [1, 2]}, {"t": 3, "sums": None}, {"t": -1, "sums": [0] * 4, "records": 0}):
        with pytest.raises(ValueError, match="not the state of a trace"):
            second.restore_state(wrong)
    first.close()
    second.close()


def test_ticks_without_a_step_after_a_checkpoint_are_cut_off(tmp_path: Path) -> None:
    source, clock = SimpleNamespace(last=(np.zeros(3), 1, 0.5)), Clock(10)

    def traced(step_offset: int, steps: list[int]) -> Trace:
        trace = Trace(source, None, str(tmp_path), None, step_offset)
        for step in steps:
            clock.previous_t, clock.t = clock.t, step
            trace(clock)
        return trace

    trace = traced(0, [1, 1, 2])
    state = trace.saved_state()
    trace(clock)  # environments that only reset themselves
    trace.close()
    assert read_records(str(tmp_path))["t"].tolist() == [1, 1, 2, 2]
    trace = traced(2, [])
    trace.restore_state(state)
    trace.close()
    assert read_records(str(tmp_path))["t"].tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (np.zeros(4, np.float32), np.full(4, 1e-9, np.float32)),
        (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(3, 2)),
        (1.0, 1.0 + 1e-15),
        (3, 4),
        (10**30, 10**30 + 1),
        (np.int64(3), np.int64(4)),
        (True, False),
        ("up", "down"),
        (None, 0),
        ({"a": np.zeros(2), "b": 1}, {"a": np.zeros(2), "b": 2}),
        ((np.zeros(2), [1.0]), (np.zeros(2), [2.0])),
        (torch.zeros(2, 3).T, torch.ones(2, 3).T),
        (torch.tensor(1.0), torch.tensor(2.0)),
        (torch.zeros(()).expand(1), torch.ones(()).expand(1)),
        (torch.zeros(()).expand(3, 2), torch.ones(()).expand(3, 2)),
        (torch.zeros(3).to_sparse(), torch.ones(3).to_sparse()),
        (torch.zeros(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
        (np.array(["a"], object), np.array(["b"], object)),
        (np.array([np.zeros(2), None], object), np.array([np.ones(2), None], object)),
        (LazyFrames([np.zeros(3), np.zeros(3)]), LazyFrames([np.zeros(3), np.ones(3)])),
    ],
)
def test_checksums_tell_values_apart_and_go_on_from_one_another(value: Any, other: Any) -> None:
    assert checksum(value, 0) == checksum(copy.deepcopy(value), 0) != checksum(other, 0)
    assert checksum(value, 1) != checksum(value, 0)
