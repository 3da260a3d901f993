"""Every agent with every buffer, plain and recurrent: it learns, or the constructor says what to use."""

import functools
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, COMBINATIONS, MAKE_BUFFER, RECURRENT_BUFFERS, make_agent

from pfrl_like.replay_buffers import PersistentEpisodicReplayBuffer, PersistentReplayBuffer

PERSISTENT = {
    "persistent": PersistentReplayBuffer,
    "persistent 3-step": functools.partial(PersistentReplayBuffer, num_steps=3),
    "persistent episodic": PersistentEpisodicReplayBuffer,
}
EPISODIC = {*RECURRENT_BUFFERS, "persistent episodic"}
PAIRS = list(itertools.product(AGENTS, MAKE_BUFFER | PERSISTENT, [False, True]))
FITTING = [
    pair
    for pair in PAIRS
    if pair in COMBINATIONS or (pair[1] in PERSISTENT and (not pair[2] or pair[1] == "persistent episodic"))
]
OTHERS = [pair for pair in PAIRS if pair not in FITTING]


def make_buffer(name: str, folder: Path) -> Any:
    if name in PERSISTENT:
        return PERSISTENT[name](str(folder / "buffer"), 100)
    return MAKE_BUFFER[name](capacity=100)


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), FITTING)
def test_pair_learns(agent: str, buffer: str, recurrent: bool, tmp_path: Path) -> None:
    trained = make_agent(agent, recurrent=recurrent, replay_buffer=make_buffer(buffer, tmp_path))
    before = [param.clone() for param in trained.model.parameters()]
    rng = np.random.default_rng(0)
    for step in range(30):
        trained.act(rng.normal(size=5).astype(np.float32))
        trained.observe(rng.normal(size=5).astype(np.float32), 1.0, step % 6 == 5, step % 10 == 9)
    assert trained.optim_t > 0
    assert all(torch.isfinite(param).all() for param in trained.model.parameters())
    moved = [not torch.equal(old, new) for old, new in zip(before, trained.model.parameters(), strict=True)]
    assert all(moved)


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), OTHERS)
def test_pair_that_does_not_fit_is_refused_with_a_way_out(
    agent: str, buffer: str, recurrent: bool, tmp_path: Path
) -> None:
    made = make_buffer(buffer, tmp_path)
    with pytest.raises(TypeError, match=f"replay_buffer is a {type(made).__name__}, .*: use .*ReplayBuffer"):
        make_agent(agent, recurrent=recurrent, replay_buffer=made)


def test_all_pairs_that_can_work_do() -> None:
    for _, buffer, recurrent in OTHERS:
        assert (buffer in EPISODIC) != recurrent
