"""Replay buffers are found wherever an agent or a source holds them, and go on with the run."""

import json
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from resume_parts import noisy_env, small_dqn

from pfrl_like.dataset import MDPDataset
from pfrl_like.experiments import train_agent
from pfrl_like.experiments.run_state import buffers_of, find_buffers
from pfrl_like.replay_buffers import ReplayBuffer


class Holder:
    """Holds something."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


class Outer:
    """An agent that hands everything on to another one."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name in ("act", "observe", "save", "load", "get_statistics"):
            return getattr(self.inner, name)
        raise AttributeError(name)

    def act(self, obs: Any) -> Any:
        return self.inner.act(obs)


class Own:
    """Like a replay buffer."""

    def __init__(self) -> None:
        self.stored: deque[Any] = deque(maxlen=10)

    def append(self, step: Any) -> None:
        self.stored.append(step)

    def sample(self, n: int) -> Any:
        return list(self.stored)[:n]


def test_buffers_have_the_names_of_the_way_to_them() -> None:
    first, second, third, fourth = (ReplayBuffer(3) for _ in range(4))
    agent = Holder(parts=[Holder(buffer=second, same=first)], buffer=first)
    source = Holder(agent=agent, buffer=third, by_name={"a/b": fourth}, again=second)
    found = buffers_of(agent, source, None)
    assert found == {"buffer": first, "again": second, "buffer-2": third, "by_name-a-b": fourth}
    assert list(buffers_of(agent)) == ["buffer", "parts-0-.buffer"]


def test_what_is_like_a_buffer_and_is_none_is_told_of() -> None:
    data = MDPDataset(np.zeros((2, 1)), [0, 1], [0, 1], [0, 1], discrete_action=True, reward_convention="next_row")
    agent = Holder(memory=Own(), queue=deque(), parts=[ReplayBuffer(3)], data=data, view=ReplayBuffer(3).memory)
    _, [reason] = find_buffers(agent)
    assert reason.startswith("memory is a Own, which is no AbstractReplayBuffer") and len(buffers_of(agent)) == 2


class Stopped(Exception):
    """Ends a run."""


def stop(clock: Any) -> None:
    if clock.t == 60:
        raise Stopped


def run(outdir: Path, **options: Any) -> Any:
    env = noisy_env(0)
    agent = small_dqn(env)
    train_agent(Outer(agent), env, 80, outdir, checkpoint_freq=25, **options)
    return agent


def test_an_agent_within_another_one_goes_on_with_its_buffer(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole")
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", hooks=[stop])
    came = run(tmp_path / "stopped", resume=True)
    assert json.loads((tmp_path / "stopped" / "run.json").read_text())["resumed"]["resume"] == "exact"
    assert len(came.replay_buffer) == len(whole.replay_buffer)
    assert all((a == b).all() for a, b in zip(whole.model.parameters(), came.model.parameters(), strict=True))
