"""Checkpoints stay whole until those that take their places are."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from resume_parts import noisy_env, small_dqn

from pfrl_like.experiments.checkpoints import Checkpoints
from pfrl_like.experiments.loop import Clock
from pfrl_like.experiments.resume import newest_checkpoint
from pfrl_like.experiments.run_state import RunState
from pfrl_like.experiments.sources import SerialSource


def checkpoints_of(outdir: Path, **options: Any) -> Checkpoints:
    env = noisy_env(0)
    agent = small_dqn(env)
    source = SerialSource(agent, env)
    source.record()
    state, logger = RunState(agent, env, source, []), logging.getLogger(__name__)
    return Checkpoints(agent, state, None, str(outdir), logger, at_end=True, **options)


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
    found = newest_checkpoint(agent, None, str(tmp_path), checkpoints.logger)
    assert found is not None and found.path == str(tmp_path / "5_previous")
    save()
    assert names() == {"5_checkpoint"}
    checkpoints.save_interrupted(Clock(None))  # in the midst of a step
    assert names() == {"5_checkpoint", "0_except"}


def test_an_agent_alone_takes_no_checkpoint_away(tmp_path: Path) -> None:
    checkpoints, clock = checkpoints_of(tmp_path), Clock(None)
    checkpoints.save(clock, "_except")
    checkpoints.save_interrupted(clock)
    found = newest_checkpoint(checkpoints.agent, None, str(tmp_path), checkpoints.logger)
    assert found is not None and found.path == str(tmp_path / "0_previous")
    assert (tmp_path / "0_except").is_dir()


def test_nothing_is_saved_again_where_no_step_was_made(tmp_path: Path) -> None:
    clock = Clock(None)
    clock.between_ticks = True
    checkpoints_of(tmp_path, since=0).save_interrupted(clock)
    assert not [*tmp_path.iterdir()]
