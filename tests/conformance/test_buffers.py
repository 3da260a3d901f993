"""Every replay buffer keeps the contracts of `check_replay_buffer`."""

import functools
import itertools
from pathlib import Path
from typing import Any

import pytest
from agent_parts import MAKE_BUFFER

from pfrl_like.replay_buffers import PersistentEpisodicReplayBuffer, PersistentReplayBuffer
from pfrl_like.testing import check_replay_buffer


@pytest.mark.parametrize("buffer", MAKE_BUFFER)
def test_buffer_keeps_the_contracts(buffer: str) -> None:
    check_replay_buffer(MAKE_BUFFER[buffer])


@pytest.mark.representatives(1)
@pytest.mark.parametrize(
    "make",
    [PersistentReplayBuffer, functools.partial(PersistentReplayBuffer, num_steps=3), PersistentEpisodicReplayBuffer],
    ids=["uniform", "3-step", "episodic"],
)
def test_persistent_buffer_keeps_the_contracts(make: Any, tmp_path: Path) -> None:
    names = itertools.count()
    check_replay_buffer(lambda capacity: make(tmp_path / str(next(names)), capacity))
