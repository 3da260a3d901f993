"""`append_chunk` of every replay buffer stores the same as `append_batch`."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from chunk_parts import FORMS, plain, steps_of, store_both

from pfrl_like.distributed.chunk_sender import ChunkSender
from pfrl_like.errors import NonFiniteError
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


CASES = [
    *((kind, n, form) for kind in ("uniform", "own_append") for n in (1, 3) for form in FORMS if form != "goals"),
    *((kind, n, form) for kind in ("small", "prioritized") for n in (1, 3) for form in ("vector", "lazy_frames")),
    *((kind, 1, form) for kind in ("episodic", "prioritized_episodic") for form in ("vector", "lazy_frames")),
]


@pytest.mark.parametrize(("kind", "num_steps", "form"), CASES)
def test_chunks_store_the_same_as_single_steps(kind, num_steps, form):
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


def chunk_of(n_ticks: int, form: str = "vector", seed: int = 0, **columns: Any) -> Any:
    sender = ChunkSender(3)
    for step in steps_of(form, n_ticks, seed=seed):
        sender.append_batch(**step)
    return dataclasses.replace(sender.take(), **columns)


def priorities(buffer: Any) -> list[float]:
    return (buffer._priorities.to_array() - 0.01).round(6).tolist()


def test_a_column_of_errors_sets_the_first_priorities_of_prioritized_items():
    chunk = chunk_of(4)
    errors = np.arange(12).reshape(4, 3) / 100
    buffer = PrioritizedReplayBuffer(10, alpha=1.0)
    buffer.append_chunk(dataclasses.replace(chunk, extra={"priority": errors}))
    assert priorities(buffer) == chunk.rows(errors).tolist()[-10:]
    assert "priority" not in buffer.memory[0][0]


def test_an_error_waits_until_an_item_begins_with_its_step():
    errors = np.arange(1, 13).reshape(4, 3) / 100
    no = np.zeros((4, 3), bool)
    chunk = chunk_of(4, terminated=no, truncated=no, active=None, extra={"priority": errors})
    buffer = PrioritizedReplayBuffer(100, alpha=1.0, num_steps=3)
    buffer.append_chunk(chunk)
    assert priorities(buffer) == [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    buffer.load_state_dict(buffer.state_dict())
    buffer.append_chunk(dataclasses.replace(chunk, extra={}, cut=np.array([True, False, False])))
    assert priorities(buffer)[6:8] == [0.07, 0.10]  # the items of the episode that was cut
    assert {0.08, 0.09, 0.11, 0.12} < {*priorities(buffer)[8:]}


@pytest.mark.parametrize("kind", ["uniform", "own_append"])
def test_other_buffers_ignore_a_column_of_errors(kind):
    buffer = KINDS[kind](None, 1)
    buffer.append_chunk(chunk_of(4, extra={"priority": np.ones((4, 3))}))
    assert "priority" not in buffer.memory[0][0]


def test_a_chunk_that_does_not_fit_stores_nothing():
    buffer = ReplayBuffer(100)
    buffer.append_chunk(chunk_of(4))
    before = content(buffer)
    chunk = chunk_of(4, seed=1)
    reward = chunk.reward.copy()
    reward[2, 1] = np.nan
    for error, name, columns in (
        (NonFiniteError, "reward", {"reward": reward}),
        (ValueError, "obs", {"obs": chunk.obs[..., :2], "last_obs": chunk.last_obs[..., :2]}),
        (ValueError, "action", {"action": chunk.action.astype(float)}),
        (ValueError, "extra", {"extra": {"more": reward}}),
    ):
        with pytest.raises(error, match=name):
            buffer.append_chunk(dataclasses.replace(chunk, **columns))
    with pytest.raises(ValueError, match="expected 3 different ids"):
        buffer.append_chunk(chunk, "aab")
    assert content(buffer) == before


def test_a_first_chunk_that_does_not_fit_leaves_the_buffer_empty():
    buffer, chunk = ReplayBuffer(100), chunk_of(4)
    with pytest.raises(ValueError, match="extra"):
        buffer.append_chunk(dataclasses.replace(chunk, extra={"reward": chunk.reward}))
    buffer.append_chunk(chunk_of(4, form="nested"))
    assert len(buffer) == chunk.n_steps


def test_a_loaded_episode_continues_only_with_its_next_observation(tmp_path):
    steps = list(steps_of("vector", 30))
    pair = [ReplayBuffer(100, 3) for _ in range(2)]
    store_both(*pair, steps[:12], np.random.default_rng(0))
    for buffer in pair:
        buffer.save(str(tmp_path / "saved"))
        buffer.load(str(tmp_path / "saved"))
    assert pair[1]._resumed
    store_both(*pair, steps[13:], np.random.default_rng(0))
    assert content(pair[0]) == content(pair[1])


def test_a_wider_dtype_widens_the_column():
    buffer, chunk = ReplayBuffer(100), chunk_of(4)
    assert chunk.obs.dtype == np.float64
    small = {name: getattr(chunk, name).astype(np.float32) for name in ("obs", "last_obs")}
    buffer.append_chunk(dataclasses.replace(chunk, **small))
    with pytest.warns(UserWarning, match="float64"):
        buffer.append_chunk(dataclasses.replace(chunk, obs=chunk.obs + 1e-9))
    assert buffer.sample_batch(4).obs.numpy().dtype == np.float64
