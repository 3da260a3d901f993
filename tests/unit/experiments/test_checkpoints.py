"""Checkpoints stay whole until those that take their places are."""

import contextlib
import hashlib
import json
import logging
import os
import random
import signal
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from resume_parts import noisy_env, small_dqn
from run_parts import Stopped, resumed, state_of_checkpoint, stop_at
from tape_parts import Secretive
from time_parts import PATIENCE

from pfrl_like.agents import DQN
from pfrl_like.dataset import MDPDataset
from pfrl_like.envs import MultiprocessVectorEnv, SerialVectorEnv
from pfrl_like.errors import WorkerError
from pfrl_like.experiments import run_state as own_attributes
from pfrl_like.experiments import train_agent, train_agent_batch
from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.experiments.run_state import OwnAttributes, RunState, buffers_of, find_buffers
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.random_streams.streams import isolated_rng
from pfrl_like.replay_buffers import ReplayBuffer
from pfrl_like.runs.loop import Clock
from pfrl_like.runs.run_files import FailedWrites


def state_of(*parts: Any) -> RunState:
    env = noisy_env(0)
    agent = small_dqn(env)
    source = SerialSource(agent, env)
    source.record()
    return RunState(agent, env, source, parts)


def checkpoints_of(outdir: Path, **options: Any) -> Checkpoints:
    state, writes = state_of(), FailedWrites(logging.getLogger(__name__), stops=True)
    return Checkpoints(state.agent, state, None, str(outdir), writes, at_end=True, **options)


def newest(checkpoints: Checkpoints) -> str | None:
    """The name of the checkpoint that a run would go on from."""
    found = newest_checkpoint(checkpoints.agent, None, checkpoints.outdir, checkpoints.logger)
    return found and Path(found.path).name


def test_a_checkpoint_serves_until_another_one_has_taken_its_place(tmp_path, monkeypatch):
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    agent, save = checkpoints.agent, partial(checkpoints.save, clock, "_checkpoint", 5)

    def killed(path):
        raise SystemExit

    def names():
        return {path.name for path in tmp_path.iterdir()} - {"checkpoint_buffers"}

    save()
    with monkeypatch.context() as broken, pytest.raises(SystemExit):
        broken.setattr(agent, "save", killed)
        save()
    assert names() == {"5_checkpoint", "5_previous"}
    assert newest(checkpoints) == "5_previous"
    save()
    assert names() == {"5_checkpoint"}
    checkpoints.save_interrupted(Clock(None))  # in the midst of a step
    assert names() == {"5_checkpoint", "0_except"}


def test_an_agent_alone_takes_no_checkpoint_away(tmp_path):
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    checkpoints.save(clock, "_except")
    checkpoints.save_interrupted(clock)
    assert newest(checkpoints) == "0_previous"
    assert (tmp_path / "0_except").is_dir()


def test_nothing_is_saved_again_where_no_step_was_made(tmp_path):
    clock = Clock(None)
    clock.between_ticks = True
    checkpoints_of(tmp_path, resumed_from=SimpleNamespace(t=0, references={})).save_interrupted(clock)
    assert not [*tmp_path.iterdir()]


def test_what_checkpoints_remember_does_not_grow(tmp_path):
    checkpoints = checkpoints_of(tmp_path)
    for t in range(6):
        checkpoints.save(Clock(None), "_checkpoint", t)
    assert [*checkpoints._references_of] == [str(tmp_path / f"{t}_checkpoint") for t in (5, 4)]


def test_a_run_whose_episode_is_too_long_is_saved_and_says_so(monkeypatch):
    monkeypatch.setattr("pfrl_like.envs.episode_tape._MAX_ACTION_BYTES", 4)
    state, clock = state_of(), Clock(10)
    state.source.tick(clock)
    saved = state.saved(clock)
    assert saved["resume"] == "approximate"
    assert ["too long to be replayed" in reason for reason in saved["reasons"]] == [True]


class Drawing:
    """A part of the user's whose state has something drawn in it, from the global streams and the environment's."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def draw(self) -> list[float]:
        return [np.random.random(), random.random(), torch.rand(()).item(), self.rng.random()]

    def saved_state(self) -> list[float]:
        return self.draw()

    def restore_state(self, state: Any) -> None:
        self.draw()


def test_states_that_are_drawn_move_no_random_stream():
    state = state_of()
    part = Drawing(state.env.unwrapped.np_random)
    state = RunState(state.agent, state.env, state.source, [part])
    clock = Clock(10)
    clock.between_episodes = True
    with isolated_rng():
        saved = state.saved(clock)
    assert saved["resume"] == "exact"
    going_on = part.draw()
    state.restore(saved)
    assert part.draw() == going_on


def test_an_agent_with_a_file_that_is_too_large_is_passed_over_before_it_is_hashed(tmp_path, monkeypatch):
    checkpoints, clock, digest = checkpoints_of(tmp_path), Clock(None), hashlib.file_digest
    for t in (1, 2):
        checkpoints.save(clock, "_checkpoint", t)
    (tmp_path / "2_checkpoint" / "manifest.json").unlink()
    os.truncate(next(tmp_path.glob("2_checkpoint/model-*.pt")), 1 << 40)

    def hashed(file, kind):
        assert os.fstat(file.fileno()).st_size < 1 << 40
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", hashed)
    assert newest(checkpoints) == "1_checkpoint"


# Replay buffers are found wherever an agent or a source holds them, and go on with the run


class Own:
    """Like a replay buffer."""

    append = sample = print


def test_buffers_have_the_names_of_the_way_to_them():
    first, second, third, fourth = (ReplayBuffer(3) for _ in range(4))
    agent = SimpleNamespace(parts=[SimpleNamespace(buffer=second, same=first)], buffer=first)
    source = SimpleNamespace(agent=agent, buffer=third, by_name={"a/b": fourth}, again=second)
    found = buffers_of(agent, source, None)
    assert found == {"buffer": first, "again": second, "buffer-2": third, "by_name-a-b": fourth}
    assert list(buffers_of(agent)) == ["buffer", "parts-0-.buffer"]


def test_what_is_like_a_buffer_and_is_none_is_told_of():
    data = MDPDataset(np.zeros((2, 1)), [0, 1], [0, 1], [0, 1], discrete_action=True, reward_convention="next_row")
    parts, view = [ReplayBuffer(3)], ReplayBuffer(3).memory
    agent = SimpleNamespace(memory=Own(), queue=deque(), parts=parts, data=data, view=view)
    _, [reason] = find_buffers(agent)
    assert reason.startswith("memory is Own, which is not an AbstractReplayBuffer") and len(buffers_of(agent)) == 2


# Which attributes of an object are looked at, as text, to find those that change


def test_data_are_not_written_as_text(monkeypatch):
    written: list[Any] = []
    monkeypatch.setattr(own_attributes, "to_json", written.append)
    mebibytes = np.zeros(1 << 18)
    OwnAttributes(SimpleNamespace(count=1, frames=mebibytes, recorded={"frames": [(mebibytes,)]}))
    assert written == [1]


def test_attributes_that_are_mocks_are_passed_over_and_new_ones_that_cannot_be_saved_are_named():
    owner = SimpleNamespace(count=1, part=mock.Mock(), many=[mock.MagicMock()])
    own = OwnAttributes(owner)
    owner.count, owner.new = 2, object()
    assert own.saved_state() == {"values": {"count": 2}, "lost": ["new"]}


# Hooks of the user's own that remember something: what cannot be saved or taken up is told, and ends no run


class Weight:
    """A hook with a tensor."""

    def __call__(self, clock: Any) -> None:
        """Learns nothing."""

    def state_dict(self) -> dict[str, Any]:
        return {"weight": torch.zeros(3, dtype=torch.bfloat16)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Forgets it."""


def run(outdir: Path, hooks: Any = (), wrapper: Any = lambda agent: agent, **options: Any) -> Any:
    env = noisy_env(0)
    agent = small_dqn(env)
    train_agent(wrapper(agent), env, 40, outdir, checkpoint_freq=25, hooks=hooks, **options)
    return agent


def stopped(outdir: Path, hook: Any) -> None:
    with pytest.raises(Stopped):
        run(outdir, [hook, stop_at(30)])


DEEP = json.loads('{"a":' * 11 + "0" + "}" * 11)


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    ("method", "answer", "reason"),
    [
        ("state_dict", {"return_value": DEEP}, "cannot be saved: TypeError('a value is nested too deeply"),
        ("state_dict", {"side_effect": RuntimeError("not now")}, "cannot be saved: RuntimeError('not now')"),
        ("load_state_dict", {"side_effect": ValueError("not mine")}, "could not be restored: ValueError('not mine')"),
    ],
)
def test_what_cannot_be_saved_or_taken_up_is_told_and_ends_no_run(method, answer, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(Weight, method, mock.Mock(**answer))
    stopped(tmp_path, Weight())
    assert (tmp_path / "25_checkpoint" / "run" / "manifest.json").exists()
    run(tmp_path, [Weight()], resume=True)
    assert resumed(tmp_path)["resume"] == "approximate"
    assert any("Weight" in each and reason in each for each in resumed(tmp_path)["reasons"])


def test_what_an_agent_leaves_out_is_told(tmp_path, monkeypatch):

    monkeypatch.setattr(DQN, "unsaved", lambda self: [] if self.t == 0 else ["dreams are not saved"])
    stopped(tmp_path, Weight())
    assert state_of_checkpoint(tmp_path)["reasons"] == ["dreams are not saved"]
    monkeypatch.setattr(DQN, "unsaved", lambda self: ["dreams are another's"])
    run(tmp_path, [Weight()], resume=True)
    told = resumed(tmp_path)
    assert (told["resume"], told["reasons"]) == ("approximate", ["dreams are not saved", "dreams are another's"])


# Workers that fail when they are asked for a checkpoint: runs go on, or end with an error that says why


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


def test_environments_that_do_not_tell_their_state_are_told_of_wherever_they_are(tmp_path):
    with in_processes(Secretive) as env:
        train(env, tmp_path / "in processes")
    train(SerialVectorEnv([Secretive(), CartPoleEnv()]), tmp_path / "serial")
    told = [reasons(tmp_path / name, 30) for name in ("in processes", "serial")]
    assert told[0] == told[1] == [
        "the values needed to restore the environment cannot be saved: NotImplementedError('no snapshots')"
    ]  # fmt: skip
    with in_processes(Secretive) as env:
        (tmp_path / "in processes" / "60_finish" / "run" / "manifest.json").unlink()
        train(env, tmp_path / "in processes", resume=True)


@pytest.mark.slow
def test_worker_that_dies_before_a_checkpoint_is_replaced(tmp_path):
    with in_processes(CartPoleEnv, on_worker_failure="restart") as env:
        train(env, tmp_path, kill_at_10)
        assert env._workers.n_restarted == 1
    assert [reasons(tmp_path, t) for t in (10, 60)] == [["its worker has been replaced"], []]


def test_worker_that_dies_before_a_checkpoint_ends_the_run_by_its_name(tmp_path):
    with in_processes(CartPoleEnv) as env, pytest.raises(WorkerError, match=r"worker 0 was killed .*SIGKILL"):
        train(env, tmp_path, kill_at_10)
    assert "WorkerError(0, 'was killed by signal 9 (SIGKILL)'" in reasons(tmp_path, 10)[0]
