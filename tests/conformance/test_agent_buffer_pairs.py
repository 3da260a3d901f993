"""Every agent with every buffer, plain and recurrent: it learns, or the constructor says what to use."""

import itertools

import numpy as np
import pytest
import torch
from agent_parts import AGENTS, COMBINATIONS, MAKE_BUFFER, RECURRENT_BUFFERS, make_agent

PAIRS = list(itertools.product(AGENTS, MAKE_BUFFER, [False, True]))
FITTING = [pair for pair in PAIRS if pair in COMBINATIONS]
OTHERS = [pair for pair in PAIRS if pair not in COMBINATIONS]


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), FITTING)
def test_pair_learns(agent: str, buffer: str, recurrent: bool) -> None:
    trained = make_agent(agent, buffer, recurrent)
    before = [param.clone() for param in trained.model.parameters()]
    rng = np.random.default_rng(0)
    for step in range(40):
        trained.act(rng.normal(size=5).astype(np.float32))
        trained.observe(rng.normal(size=5).astype(np.float32), 1.0, step % 6 == 5, step % 10 == 9)
    assert trained.optim_t > 0
    assert all(torch.isfinite(param).all() for param in trained.model.parameters())
    moved = [not torch.equal(old, new) for old, new in zip(before, trained.model.parameters(), strict=True)]
    assert all(moved)


@pytest.mark.parametrize(("agent", "buffer", "recurrent"), OTHERS)
def test_pair_that_does_not_fit_is_refused_with_a_way_out(agent: str, buffer: str, recurrent: bool) -> None:
    kind = type(MAKE_BUFFER[buffer](capacity=10)).__name__
    with pytest.raises(TypeError, match=f"replay_buffer is a {kind}, .*: use .*ReplayBuffer"):
        make_agent(agent, buffer, recurrent)


def test_all_pairs_that_can_work_do() -> None:
    for _, buffer, recurrent in OTHERS:
        assert (buffer in RECURRENT_BUFFERS) != recurrent
