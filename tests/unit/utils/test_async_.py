"""A function in several processes."""

import multiprocessing
import os
import signal
import threading
from typing import Any

import pytest

from pfrl_like.utils import async_
from pfrl_like.utils.async_ import AbnormalExitWarning, run_async

FORK = multiprocessing.get_context("fork")
PROCESS = async_.mp.Process


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a new interpreter would import torch, which takes seconds."""
    monkeypatch.setattr(async_.mp, "Process", FORK.Process)


@pytest.mark.slow
def test_a_function_of_a_module_runs_in_new_interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_.mp, "Process", PROCESS)
    multiprocessing.set_start_method("spawn")
    with pytest.warns(AbnormalExitWarning, match="process 1 .*exited with status 1"):
        run_async(2, os._exit)


def test_processes_end_if_another_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = FORK.Process(target=threading.Event().wait), FORK.Process()
    monkeypatch.setattr(second, "start", lambda: os.stat("missing"))
    monkeypatch.setattr(async_.mp, "Process", lambda target, args: (first, second)[args[0]])
    with pytest.raises(FileNotFoundError):
        run_async(2, print)
    assert first.exitcode == -signal.SIGTERM


def test_each_process_gets_its_index() -> None:
    counts: Any = FORK.Array("i", 3)

    def run(index: int) -> None:
        counts[index] += index + 1

    run_async(3, run)
    assert counts[:] == [1, 2, 3]


def test_a_process_that_fails_is_named() -> None:
    def run(index: int) -> None:
        if index == 1:
            os._exit(3)
        if index == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.warns(AbnormalExitWarning) as found:
        run_async(3, run)
    texts = [str(warning.message) for warning in found]
    assert texts[0].startswith("process 1 (pid ") and texts[0].endswith("exited with status 3")
    assert texts[1].startswith("process 2 (pid ") and texts[1].endswith("was killed by signal 9")


def test_a_function_that_cannot_be_sent_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_.mp, "Process", multiprocessing.get_context("spawn").Process)
    with pytest.raises(TypeError, match=r"run_func \(<function .* cannot be sent to a process: .*top level of a mod"):
        run_async(1, lambda index: index)
