"""`append_chunk` of every replay buffer stores the same as `append_batch`."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    HindsightReplayBuffer,
    PersistentEpisodicReplayBuffer,
    PersistentReplayBuffer,
    PrioritizedEpisodicReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)
from tests.support.chunk_parts import plain, steps_of, store_both


def reward_of_goals(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired).sum(axis=1)


def reached(achieved: Any, desired: Any, info: Any) -> Any:
    return (achieved == desired).all(axis=1)


class OwnAppend(ReplayBuffer):
    """A user's buffer that changes each step before it is stored."""

    def append(self, state, action, reward, *args, **kwargs):
        super().append(state, action, 2 * reward, *args, **kwargs)


class OwnBuffer(AbstractReplayBuffer):
    """A user's buffer that has only PFRL's methods."""

    capacity = None

    def __init__(self):
        self.calls = []

    def __len__(self):
        return len(self.calls)

    def append(self, *args, **kwargs):
        self.calls.append([args, kwargs])

    def stop_current_episode(self, env_id=0):
        self.calls.append(["stop", env_id])

    def sample(self, n):
        return self.calls

    memory = property(lambda self: self.calls)
    save = load = None


def content(buffer: Any) -> Any:
    if isinstance(buffer, ReplayBuffer) and buffer._user_memory is None:
        columns, rows = buffer.stored_steps()
        return plain([columns.transitions(rows), [*columns.running], list(buffer.memory)])
    return plain([list(step) if isinstance(step, list) else step for step in buffer.memory])


def sampled(buffer: Any) -> Any:
    batches = []
    for _ in range(3):
        batches.append(buffer.sample_batch(4, 0.9))
        if hasattr(buffer, "sample_sequences"):
            batches.append(buffer.sample_sequences(3, 4))
        if buffer.prioritized:
            buffer.update_priorities(batches[-1].index, np.arange(len(batches[-1].index)) + 0.5)
    return plain([dataclasses.astuple(batch) for batch in batches])


KINDS = {
    "uniform": lambda rng, n: ReplayBuffer(1000, n, rng=rng),
    "small": lambda rng, n: ReplayBuffer(7, n, rng=rng),
    "prioritized": lambda rng, n: PrioritizedReplayBuffer(40, num_steps=n, rng=rng),
    "episodic": lambda rng, n: EpisodicReplayBuffer(40, rng=rng),
    "prioritized_episodic": lambda rng, n: PrioritizedEpisodicReplayBuffer(
        60, rng=rng, wait_priority_after_sampling=False
    ),
    "own_append": lambda rng, n: OwnAppend(50, n, rng=rng),
}


@pytest.mark.parametrize("form", ["vector", "nested", "lazy_frames", "array_frames"])
@pytest.mark.parametrize("num_steps", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_store_the_same_as_single_steps(kind, num_steps, form):
    if num_steps > 1 and "episodic" in kind:
        pytest.skip("episodic buffers have no n-step items")
    pair = [KINDS[kind](np.random.default_rng(5), num_steps) for _ in range(2)]
    store_both(*pair, steps_of(form, 40, masks=form != "nested"), np.random.default_rng(1))
    assert content(pair[0]) == content(pair[1])
    assert sampled(pair[0]) == sampled(pair[1])
    store_both(*pair, steps_of(form, 25, seed=3, masks=form != "nested"), np.random.default_rng(2))
    assert content(pair[0]) == content(pair[1])
    assert sampled(pair[0]) == sampled(pair[1])


@pytest.mark.parametrize("num_steps", [1, 3])
def test_chunks_of_a_hindsight_buffer(num_steps):
    pair = [
        HindsightReplayBuffer(
            60, reward_of_goals, num_steps=num_steps, terminated_fn=reached, rng=np.random.default_rng(0)
        )
        for _ in range(2)
    ]
    store_both(*pair, steps_of("goals", 60), np.random.default_rng(1))
    assert content(pair[0]) == content(pair[1])
    assert sampled(pair[0]) == sampled(pair[1])


@pytest.mark.parametrize("cls", [PersistentReplayBuffer, PersistentEpisodicReplayBuffer])
@pytest.mark.parametrize("form", ["vector", "array_frames"])
def test_chunks_of_a_persistent_buffer(cls, form, tmp_path):
    with (
        cls(str(tmp_path / "a"), 40, rng=np.random.default_rng(0)) as a,
        cls(str(tmp_path / "b"), 40, rng=np.random.default_rng(0)) as b,
    ):
        store_both(a, b, steps_of(form, 30), np.random.default_rng(1))
        assert content(a) == content(b)
        assert sampled(a) == sampled(b)


@pytest.mark.parametrize("form", ["vector", "nested", "lazy_frames", "array_frames"])
def test_chunks_of_a_users_buffer(form):
    pair = OwnBuffer(), OwnBuffer()
    store_both(*pair, steps_of(form, 20, masks=True), np.random.default_rng(1))
    assert content(pair[0]) == content(pair[1])


def test_chunks_of_a_users_container():
    pair = [ReplayBuffer(30, 2) for _ in range(2)]
    for buffer in pair:
        buffer.memory = []
    store_both(*pair, steps_of("vector", 20), np.random.default_rng(1))
    assert content(pair[0]) == content(pair[1])
