"""`benchmarks/measurement_lock.py`: measurements hold a lock that ends with their process."""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("fcntl")
NAMES = ["speed", "offline_speed", "persistent_speed", "atari", "checkpoint_cost", "increment_cost", "worker_faults"]


@pytest.fixture
def lock(script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    module = script("measurement_lock")
    monkeypatch.setattr(module, "PATH", tmp_path / "lock")
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    return module


def test_measurements_share_the_lock(lock: Any) -> None:
    assert not lock.is_measuring()
    with lock.measuring():
        with lock.measuring():
            assert lock.is_measuring()
        assert lock.is_measuring()
    assert not lock.is_measuring()


def test_the_lock_of_a_killed_process_is_free(lock: Any) -> None:
    program = f"import fcntl; file = open({str(lock.PATH)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_SH); print(flush=True)"
    with subprocess.Popen([sys.executable, "-Sc", f"{program}; input()"], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None and process.stdout.readline() and lock.is_measuring()
        process.kill()
        process.wait()
        assert not lock.is_measuring()


@pytest.mark.parametrize("name", NAMES)
def test_a_script_that_measures_time_holds_it(lock: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "atari":
        pytest.importorskip("ale_py")
    script = importlib.import_module(name)
    held = []

    def begin(*_: Any) -> None:
        held.append(lock.is_measuring())
        raise SystemExit

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", begin)
    monkeypatch.setattr(torch, "set_num_threads", begin)
    with pytest.raises(SystemExit):
        script.main()
    assert held == [True]


def test_a_command_runs_under_the_lock(lock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []
    monkeypatch.setattr(lock.subprocess, "call", lambda command: held.append((command, lock.is_measuring())) or 7)
    monkeypatch.setattr("sys.argv", ["measurement_lock.py", "make", "test"])
    assert lock.main() == 7 and held == [(["make", "test"], True)]
