"""Workers that fail when they are asked for a checkpoint: runs go on, or end with an error that says why."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from resume_parts import small_dqn
from run_parts import state_of_checkpoint
from tape_parts import Secretive
from time_parts import PATIENCE

from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.errors import WorkerError
from pfrl_like.experiments import train_agent_batch


class Fragile(CartPoleEnv):
    """Dies when it is asked for its state."""

    def get_state(self) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    def set_state(self, state: Any) -> None:
        """Never called."""


@contextlib.contextmanager
def in_processes(kind: Any, **options: Any) -> Iterator[MultiprocessVectorEnv]:
    env = MultiprocessVectorEnv([kind, CartPoleEnv], "fork", **options)
    with contextlib.closing(env):
        yield env


def train(env: Any, outdir: Path, hook: Any = None, resume: bool = False) -> None:
    hooks = [] if hook is None else [hook]
    options = {"checkpoint_freq": 10, "max_episode_len": 7, "keep_checkpoints": 9, "resume": resume}
    train_agent_batch(small_dqn(CartPoleEnv()), env, 60, outdir, step_hooks=hooks, **options)


def kill_at_10(env: Any, agent: Any, t: int) -> None:
    """As the system does when memory is short: between a step and the checkpoint."""
    if t == 10:
        os.kill(env._workers.processes[0].pid, signal.SIGKILL)
        env._workers.processes[0].join(PATIENCE)


def reasons(outdir: Path, t: int) -> Any:
    """Why the checkpoint at step t is none of which a run goes on exactly."""
    return state_of_checkpoint(outdir, f"{t}_checkpoint")["reasons"]


def test_environments_that_do_not_tell_their_state_are_told_of_wherever_they_are(tmp_path: Path) -> None:
    with in_processes(Secretive) as env:
        train(env, tmp_path / "in processes")
    train(SerialVectorEnv([Secretive(), CartPoleEnv()]), tmp_path / "serial")
    told = [reasons(tmp_path / name, 30) for name in ("in processes", "serial")]
    assert told[0] == told[1] == [
        "what brings the environment to where it is cannot be saved: NotImplementedError('no snapshots')"
    ]  # fmt: skip
    with in_processes(Secretive) as env:
        (tmp_path / "in processes" / "60_finish" / "run" / "manifest.json").unlink()
        train(env, tmp_path / "in processes", resume=True)


def test_worker_that_dies_before_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    with in_processes(CartPoleEnv, on_worker_failure="restart") as env:
        train(env, tmp_path, kill_at_10)
        assert env._workers.n_restarted == 1
    assert [reasons(tmp_path, t) for t in (10, 60)] == [["its worker has been replaced"], []]


def test_worker_that_dies_of_a_checkpoint_is_replaced_as_often_as_that_may_be(tmp_path: Path) -> None:
    fragile = in_processes(Fragile, on_worker_failure="restart", max_restarts=1)
    with fragile as env, pytest.raises(WorkerError, match="worker 0 was killed") as caught:
        train(env, tmp_path)
    assert "1 workers had been replaced" in caught.value.__notes__[0]
    assert reasons(tmp_path, 10) == ["its worker has been replaced"]


def test_worker_that_dies_before_a_checkpoint_ends_the_run_by_its_name(tmp_path: Path) -> None:
    with in_processes(CartPoleEnv) as env, pytest.raises(WorkerError, match=r"worker 0 was killed .*SIGKILL"):
        train(env, tmp_path, kill_at_10)
    assert "WorkerError(0, 'was killed by signal 9 (SIGKILL)'" in reasons(tmp_path, 10)[0]
