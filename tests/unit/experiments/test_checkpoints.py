"""Checkpoints stay whole until those that take their places are."""

import hashlib
import json
import logging
import os
import random
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from resume_parts import noisy_env, small_dqn

from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.experiments.sources import SerialSource
from pfrl_like.random_streams.streams import isolated_rng
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


def test_a_checkpoint_serves_until_another_one_has_taken_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    agent, save = checkpoints.agent, partial(checkpoints.save, clock, "_checkpoint", 5)

    def killed(path: str) -> None:
        raise SystemExit

    def names() -> set[str]:
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


def test_an_agent_alone_takes_no_checkpoint_away(tmp_path: Path) -> None:
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    checkpoints.save(clock, "_except")
    checkpoints.save_interrupted(clock)
    assert newest(checkpoints) == "0_previous"
    assert (tmp_path / "0_except").is_dir()


def test_nothing_is_saved_again_where_no_step_was_made(tmp_path: Path) -> None:
    clock = Clock(None)
    clock.between_ticks = True
    checkpoints_of(tmp_path, goes_on_from=SimpleNamespace(t=0, references={})).save_interrupted(clock)
    assert not [*tmp_path.iterdir()]


def test_what_checkpoints_remember_does_not_grow(tmp_path: Path) -> None:
    checkpoints = checkpoints_of(tmp_path)
    for t in range(6):
        checkpoints.save(Clock(None), "_checkpoint", t)
    assert [*checkpoints._references_of] == [str(tmp_path / f"{t}_checkpoint") for t in (5, 4)]


def test_a_run_whose_episode_is_too_long_is_saved_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pfrl_like.envs.episode_tape._ROOM_FOR_ACTIONS", 4)
    state, clock = state_of(), Clock(10)
    state.source.tick(clock)
    saved = state.saved(clock)
    assert saved["resume"] == "approximate"
    assert ["too long to be repeated" in reason for reason in saved["reasons"]] == [True]


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


def test_states_that_are_drawn_move_no_random_stream() -> None:
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


@pytest.mark.parametrize("has_manifest", [True, False])
def test_an_agent_with_a_file_that_is_too_large_is_passed_over_before_it_is_hashed(
    has_manifest: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    for t in (1, 2):
        checkpoints.save(clock, "_checkpoint", t)
    folder = tmp_path / "2_checkpoint"
    manifest, digest = folder / "manifest.json", hashlib.file_digest
    fields = json.loads(manifest.read_text())
    path = folder / fields["files"]["model.pt"]["name"]
    with path.open("wb") as file:
        file.truncate(1 << 40)
    fields["files"]["model.pt"]["size"] = 1 << 40
    manifest.write_text(json.dumps(fields))
    if not has_manifest:
        manifest.unlink()

    def hashed(file: Any, kind: Any) -> Any:
        assert os.fstat(file.fileno()).st_size < 1 << 40
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", hashed)
    assert newest(checkpoints) == "1_checkpoint"
