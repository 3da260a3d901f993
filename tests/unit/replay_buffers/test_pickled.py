"""A buffer that was pickled or copied stores further steps as the original does."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from chunk_parts import FORMS, plain, steps_of

from pfrl_like.columns import leaves
from pfrl_like.replay_buffers import HindsightReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer


@pytest.fixture(autouse=True)
def arrays_that_grow_often(monkeypatch):
    monkeypatch.setattr(leaves, "_CHUNK_BYTES", 1 << 10)


def distance(achieved: Any, desired: Any, info: Any) -> Any:
    return -np.abs(achieved - desired).sum(axis=1)


def is_reached(achieved: Any, desired: Any, info: Any) -> Any:
    return (achieved == desired).all(axis=1)


def unpickled(buffer: Any) -> Any:
    return pickle.loads(pickle.dumps(buffer))


def unpickled_from_old_protocol(buffer: Any) -> Any:
    return pickle.loads(pickle.dumps(buffer, protocol=2))


def content(buffer: Any) -> Any:
    return plain(buffer.state_dict()["arrays"])


def check_growth(buffer: Any, copied: Any, form: str, **options: Any) -> None:
    steps = steps_of(form, 240, **options)
    for step in itertools.islice(steps, 120):
        buffer.append_batch(**step)
    other = copied(buffer)
    before = buffer.nbytes
    for step in steps:
        buffer.append_batch(**step)
        other.append_batch(**step)
    assert buffer.nbytes > before
    assert content(other) == content(buffer)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_observations_grows(form):
    check_growth(ReplayBuffer(10**5, num_steps=3), unpickled, form, masks=True)


@pytest.mark.parametrize("copied", [unpickled_from_old_protocol, copy.deepcopy])
def test_other_copies_grow(copied):
    check_growth(ReplayBuffer(10**5), copied, "array_frames")


@pytest.mark.parametrize(
    "buffer",
    [
        PrioritizedReplayBuffer(10**5),
        HindsightReplayBuffer(10**5, distance, terminated_fn=is_reached),
    ],
)
def test_the_columns_of_other_buffers_grow(buffer):
    check_growth(buffer, unpickled, "goals")


def test_columns_of_links_back_and_of_changed_steps_grow():
    buffer = ReplayBuffer(10**5)
    for i in range(500):
        buffer.append(np.full((3, 4, 4), i), [i], i, np.full((3, 4, 4), i + 1))
    buffer.memory[7][0]["reward"] = -1.0
    buffer.sample_batch(4, n_frames=2)
    other = unpickled(buffer)
    for each in (buffer, other):
        for i in range(500, 3000):
            each.append(np.full((3, 4, 4), i), [i], i, np.full((3, 4, 4), i + 1))
        each.memory[2500][0]["reward"] = -2.0
    assert content(other) == content(buffer)
    batches = [each.sample_batch(0, n_frames=2).replace(index=None) for each in (other, buffer)]
    assert plain(batches[0].obs) == plain(batches[1].obs)


def test_values_that_are_not_arrays_grow():
    buffer = ReplayBuffer(10**5)
    for i in range(500):
        buffer.append(f"state {i}", f"action {i}", i, f"state {i + 1}")
    other = unpickled(buffer)
    for i in range(500, 3000):
        other.append(f"state {i}", f"action {i}", i, f"state {i + 1}")
    steps = [item[0] for item in other.memory]
    assert [(step["state"], step["action"], step["reward"]) for step in steps] == [
        (f"state {i}", f"action {i}", i) for i in range(3000)
    ]
