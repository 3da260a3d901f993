"""Observations whose dtype changes: columns in memory get a wider dtype, columns in files refuse with a way out."""

from typing import Any

import numpy as np
import pytest

from pfrl_like.dataset import MDPDataset
from pfrl_like.replay_buffers import EpisodicReplayBuffer, PersistentReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer
from pfrl_like.utils import checks

SINGLE, DOUBLE = np.full(3, 0.5, np.float32), np.full(3, 0.1)


@pytest.fixture(autouse=True)
def warns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_WARNED", set())


def states(buffer: Any) -> list[Any]:
    return [(item[0]["state"], item[0]["next_state"]) for item in buffer.memory]


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=True)) and np.asarray(a).dtype == np.asarray(b).dtype


def append(buffer: Any, many: bool, obs: Any, next_obs: Any, done: bool = False) -> None:
    if many:
        buffer.append_batch([obs], [0], [1.0], [next_obs], [done], [False])
    else:
        buffer.append(obs, 0, 1.0, next_obs, is_state_terminal=done)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("make", [ReplayBuffer, EpisodicReplayBuffer, PrioritizedReplayBuffer])
def test_the_column_becomes_wide_enough_for_all(make: Any, many: bool) -> None:
    buffer = make(100)
    with pytest.warns(UserWarning, match="stores observations as float64 instead of float32 from now on"):
        append(buffer, many, SINGLE, DOUBLE)  # reset gives float32, step gives float64
    for _ in range(10):
        append(buffer, many, DOUBLE, DOUBLE + 1)
        append(buffer, many, DOUBLE + 1, DOUBLE)
    append(buffer, many, DOUBLE, SINGLE, True)
    append(buffer, many, SINGLE, DOUBLE, True)
    found = states(buffer)
    assert all(same(a, b) for a, b in zip(found[0], (SINGLE.astype(np.float64), DOUBLE), strict=True))
    assert all(same(a, b) for a, b in zip(found[1], (DOUBLE, DOUBLE + 1), strict=True))
    assert same(found[-1][1], DOUBLE)
    if make is ReplayBuffer:
        assert buffer.sample_batch(4).obs.dtype.itemsize == 8


@pytest.mark.parametrize("many", [False, True])
def test_integers_and_then_floats_are_floats(many: bool) -> None:
    buffer = ReplayBuffer(100)
    append(buffer, many, np.arange(3), np.arange(3) + 1)
    with pytest.warns(UserWarning, match="float64 instead of int64"):
        append(buffer, many, np.arange(3) + 1, np.full(3, 0.5))
    assert same(states(buffer)[0][1], np.arange(3) + 1.0)
    assert same(states(buffer)[1][1], np.full(3, 0.5))


def test_the_rows_of_observations_stay_shared() -> None:
    buffer = ReplayBuffer(100)
    append(buffer, False, np.arange(3), np.arange(3) + 1)
    with pytest.warns(UserWarning, match="float64"):
        append(buffer, False, np.arange(3) + 1, np.full(3, 0.5))
    append(buffer, False, np.full(3, 0.5), np.full(3, 0.25))
    columns, rows = buffer.stored_steps()
    assert columns.next_row[rows][:-1].tolist() == columns.obs_row[rows][1:].tolist()


@pytest.mark.parametrize("many", [False, True])
def test_what_loses_nothing_is_cast_without_a_warning(many: bool) -> None:
    buffer = ReplayBuffer(100)
    append(buffer, many, SINGLE, SINGLE.astype(np.float64) * 2)
    append(buffer, many, SINGLE.astype(np.float64) * 2, SINGLE)
    assert [side.dtype for pair in states(buffer) for side in pair] == [np.float32] * 4


@pytest.mark.parametrize("many", [False, True])
def test_leaves_of_nested_observations_change_apart(many: bool) -> None:
    buffer = ReplayBuffer(100)
    first, later = {"a": np.zeros(2, np.float32), "b": np.int64(3)}, {"a": np.full(2, 0.1), "b": np.int64(4)}
    with pytest.warns(UserWarning, match="float64 instead of float32"):
        append(buffer, many, first, later)
    (before, after) = states(buffer)[0]
    assert (before["a"].dtype, before["b"].dtype) == (np.float64, np.int64)
    assert same(after["a"], later["a"])


@pytest.mark.parametrize("many", [False, True])
def test_stacked_frames_change_their_dtype(many: bool) -> None:
    frames = [np.full((16, 16), i, np.uint8) for i in range(5)]
    stacks = [np.stack(frames[i : i + 4]) for i in range(2)]
    buffer = ReplayBuffer(100)
    append(buffer, many, *stacks)
    assert type(buffer._columns.obs.leaves[0]).__name__ == "FrameLeaf"
    with pytest.warns(UserWarning, match="float64 instead of uint8"):
        append(buffer, many, stacks[1], stacks[1] / 3)
    found = states(buffer)
    assert same(found[0][1], stacks[1].astype(np.float64))
    assert same(found[1][1], stacks[1] / 3)
    append(buffer, many, stacks[1] / 3, stacks[0])
    assert same(states(buffer)[-1][1], stacks[0].astype(np.float64))


def test_a_stored_number_that_would_change_is_refused() -> None:
    buffer = ReplayBuffer(100)
    large = np.full(3, 2**53 + 1)
    append(buffer, False, large, large)
    with pytest.raises(ValueError, match="int64 values of the column cannot be converted to float64 without loss"):
        append(buffer, False, large, np.full(3, 0.5))
    assert same(states(buffer)[0][0], large)
    assert len(buffer) == 1


SIGNS = [(np.uint8, np.int8, -1), (np.int8, np.uint8, 255), (np.uint32, np.int32, -7), (np.int32, np.uint32, 2**32 - 1)]


@pytest.mark.parametrize(("first", "later", "value"), SIGNS)
@pytest.mark.parametrize("many", [False, True])
def test_signed_and_unsigned_integers_keep_their_values(many: bool, first: Any, later: Any, value: int) -> None:
    buffer = ReplayBuffer(100)
    append(buffer, many, np.full(3, 5, first), np.full(3, 6, first))
    with pytest.warns(UserWarning, match=f"instead of {np.dtype(first)}"):
        append(buffer, many, np.full(3, 6, first), np.full(3, value, later))
    assert [int(side[0]) for pair in states(buffer) for side in pair] == [5, 6, 6, value]


@pytest.mark.parametrize(("first", "later", "value"), [*SIGNS, (np.int64, np.uint64, 2**64 - 1)])
def test_a_persistent_buffer_refuses_integers_of_another_sign(
    first: Any, later: Any, value: int, tmp_path: Any
) -> None:
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        append(buffer, False, np.full(3, 5, first), np.full(3, 6, first))
        with pytest.raises(ValueError, match="cast it in a wrapper"):
            append(buffer, False, np.full(3, 6, first), np.full(3, value, later))


@pytest.mark.parametrize("many", [False, True])
def test_an_integer_that_no_dtype_of_the_column_represents_is_refused(many: bool) -> None:
    buffer = ReplayBuffer(100)
    append(buffer, many, np.full(3, 0.5), np.full(3, 0.5))
    with pytest.raises(ValueError, match="int64, expected .* float64 as in the first step"):
        append(buffer, many, np.full(3, 0.5), np.full(3, 2**53 + 1))
    assert len(buffer) == 1


@pytest.mark.parametrize("many", [False, True])
def test_another_shape_is_still_refused(many: bool) -> None:
    buffer = ReplayBuffer(100)
    append(buffer, many, SINGLE, SINGLE)
    with pytest.raises(ValueError, match="expected an array of shape"):
        append(buffer, many, SINGLE, DOUBLE[:2])
    assert len(buffer) == 1


@pytest.mark.filterwarnings("ignore:obs")
@pytest.mark.parametrize("saved", ["file", "increments"])
def test_saves_before_and_after_the_change_load(saved: str, tmp_path: Any) -> None:
    buffer, folder = ReplayBuffer(100), str(tmp_path)
    references = []
    for obs in (SINGLE, DOUBLE, DOUBLE + 1):
        for _ in range(5):
            append(buffer, False, obs, obs)
        if saved == "increments":
            references.append(buffer.save_increment(folder, references[-1] if references else None))
        else:
            buffer.save(f"{folder}/{len(references)}")
            references.append(len(references))
    for i, reference in enumerate(references):
        other = ReplayBuffer(100)
        other.load(f"{folder}/{i}") if saved == "file" else other.load_increment(folder, reference)
        assert len(other) == 5 * (i + 1)
        kind = np.float32 if i == 0 else np.float64
        assert all(same(a[0], b[0].astype(kind)) for a, b in zip(states(other), states(buffer), strict=False))
        if i == 0:
            append(other, False, DOUBLE, DOUBLE)
            assert same(states(other)[-1][0], DOUBLE)


def test_a_persistent_buffer_casts_what_loses_nothing_and_refuses_the_rest(tmp_path: Any) -> None:
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        append(buffer, False, SINGLE, SINGLE.astype(np.float64))
        for many in (False, True):
            with pytest.raises(ValueError, match="expected an array of shape .* float32 .*: cast it in a wrapper"):
                append(buffer, many, SINGLE, DOUBLE)
        append(buffer, True, SINGLE, SINGLE)
        assert len(buffer) == 2


@pytest.mark.parametrize("many", [False, True])
def test_a_persistent_buffer_takes_steps_after_it_refused_the_first(many: bool, tmp_path: Any) -> None:
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        with pytest.raises(ValueError, match="cast it in a wrapper"):
            append(buffer, many, SINGLE, DOUBLE)
        append(buffer, many, SINGLE, DOUBLE.astype(np.float32))
    with PersistentReplayBuffer(tmp_path, 100) as buffer:
        assert same(states(buffer)[0][1], DOUBLE.astype(np.float32))


def test_a_changed_state_may_have_a_wider_dtype() -> None:
    buffer = ReplayBuffer(100)
    append(buffer, False, SINGLE, SINGLE)
    with pytest.warns(UserWarning, match="float64"):
        buffer.memory[0][0]["state"] = DOUBLE
    assert same(states(buffer)[0][0], DOUBLE)


def test_a_buffer_of_a_dataset_changes_its_dtype_and_the_dataset_stays() -> None:
    ends = np.array([0, 0, 0, 1])
    dataset = MDPDataset(
        np.ones((4, 3), np.float32), np.zeros(4, np.int64), np.ones(4), ends, discrete_action=True,
        reward_convention="same_row",
    )  # fmt: skip
    buffer = ReplayBuffer.from_dataset(dataset)
    with pytest.warns(UserWarning, match="float64 instead of float32"):
        append(buffer, False, DOUBLE, DOUBLE)
    assert same(states(buffer)[-1][0], DOUBLE)
    assert same(states(buffer)[0][0], np.ones(3))
    assert dataset.observations.dtype == np.float32
