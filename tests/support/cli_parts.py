"""Commands in processes of their own, and a training command that takes a second."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Printed, Patch = pytest.CaptureFixture[str], pytest.MonkeyPatch
#: The two ways to start a command.
MODULE, INSTALLED = (sys.executable, "-m", "pfrl_like"), (str(Path(sys.executable).with_name("pfrl-like")),)
#: A tiny agent in a small environment; the number of steps and the directory are missing.
TRAIN = (
    *("train", "--agent", "dqn", "--env", "CartPole-v1"),
    *("--set", "hidden_sizes=[8]", "--set", "replay_start_size=20", "--set", "minibatch_size=4"),
    *("--set", "update_interval=1", "--set", "n_times_update=1", "--set", "eval_n_episodes=1"),
)


@contextlib.contextmanager
def started(folder: Path, *words: str, program: tuple[str, ...] = MODULE) -> Iterator[subprocess.Popen[str]]:
    """A command in a folder, the leader of a process group, which is killed at the end of the context."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*program, *words], cwd=folder, env=environ, start_new_session=True, **pipes) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(folder: Path, *words: str, program: tuple[str, ...] = MODULE) -> tuple[int, str, str]:
    """The exit status of a command, and what it prints to stdout and stderr."""
    with started(folder, *words, program=program) as process:
        out, err = process.communicate()
    return process.returncode, out, err


def wait_for(folder: Path, pattern: str, process: subprocess.Popen[str], count: int = 1) -> None:
    """Wait until a folder has files, while a process runs."""
    while len([*folder.glob(pattern)]) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def records(folder: Path) -> list[dict[str, Any]]:
    """The files run.json of all runs in a folder, by name."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*/run.json"))]
