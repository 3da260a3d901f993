"""The N-th system call fails, for every N: what is loaded afterwards is the old state or the new one, complete."""

import itertools
from pathlib import Path

import pytest
from lab.failing_calls import CALLS, Fault
from lab.subjects import WRITERS
from lab.test_failing_calls import survived

from pfrl_like.errors import CheckpointError


@pytest.mark.representatives(1)
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("works", [False, True])
@pytest.mark.parametrize("name", ["agent", "buffer"])
@pytest.mark.usefixtures("no_waiting_for_the_disk")
def test_either_state_is_complete_whichever_call_fails(name: str, works: bool, step: int, tmp_path: Path) -> None:
    subject, current = WRITERS[name], 0
    subject.write(tmp_path, current)
    for n in itertools.count(1, step):
        fault = Fault(*CALLS, n=n, works=works)
        current = survived(subject, tmp_path, current, fault)
        assert not list(tmp_path.rglob(".tmp-*"))
        if not fault.happened:
            break
    assert n > 5


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_first_save_that_fails_leaves_no_state_at_all(call: str, tmp_path: Path) -> None:
    with Fault(call, n=1).installed(), pytest.raises(CheckpointError, match="Input/output error"):
        WRITERS["agent"].write(tmp_path, 1)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
