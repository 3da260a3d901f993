import copy

import gymnasium
import numpy as np
import pytest
import torch
from d3rlpy_parts import observed

from pfrl_like.d3rlpy.dataset import (
    FIFOBuffer,
    FrameStackTransitionPicker,
    LastFrameWriterPreprocess,
    ReplayBuffer,
    batch_of,
    create_fifo_replay_buffer,
    create_infinite_replay_buffer,
)


class Env(gymnasium.Env):
    """The spaces of an environment."""

    def __init__(self, shape: tuple[int, ...] = (1,), dtype: type = np.float32) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 100, shape, dtype)
        self.action_space = gymnasium.spaces.Discrete(3)


def write(dataset: ReplayBuffer, rows: range, terminated: bool | None = None) -> None:
    """Append rows whose observation is their number. End the episode unless `terminated` is None."""
    for row in rows:
        dataset.append(np.array([row], np.float64), row % 3, row + 0.5)
    if terminated is not None:
        dataset.clip_episode(terminated)


def test_a_row_becomes_a_transition_with_the_next_row_or_a_terminal_end() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(3))
    assert observed(dataset) == [0, 1]
    dataset.clip_episode(True)
    write(dataset, range(3, 6), False)
    write(dataset, range(6, 8))
    assert observed(dataset) == [0, 1, 2, 3, 4, 6]
    assert [(e.size(), e.terminated) for e in dataset.episodes] == [(3, True), (3, False), (2, False)]


def test_values_have_the_dtypes_of_the_environment() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(2), False)
    (episode,) = dataset.episodes
    assert (episode.observations.dtype, episode.actions.dtype, episode.rewards.dtype) == (
        np.float32, np.int64, np.float32,
    )  # fmt: skip
    assert episode.actions.tolist() == [[0], [1]] and episode.rewards.tolist() == [[0.5], [1.5]]


def test_an_episode_of_one_row_is_a_transition_only_if_terminal() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(1), False)
    write(dataset, range(1, 2), True)
    assert observed(dataset) == [1] and dataset.size() == 1
    dataset.clip_episode(True)  # without a running episode
    assert dataset.transition_count == 1


def test_transitions_may_be_written_at_the_end_of_the_episode() -> None:
    dataset = create_fifo_replay_buffer(10, env=Env(), write_at_termination=True)
    write(dataset, range(3))
    assert dataset.transition_count == 0
    dataset.clip_episode(True)
    assert observed(dataset) == [0, 1, 2]


def test_the_newest_action_of_a_running_episode_is_the_next_action_of_its_last_transition() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(3))
    batch = batch_of(dataset, np.arange(2), 0.9, returns=True)
    assert batch.next_action.tolist() == [1, 2] and batch.next_obs.ravel().tolist() == [1, 2]
    assert batch.returns.tolist() == pytest.approx([0.5 + 0.9 * 1.5 + 0.81 * 2.5, 1.5 + 0.9 * 2.5])


def test_a_full_buffer_uses_the_rows_of_dropped_episodes_again() -> None:
    dataset = ReplayBuffer(FIFOBuffer(20), env=Env())
    for start in range(0, 3000, 10):
        write(dataset, range(start, start + 10), True)
    columns = dataset.columns.columns
    assert columns.steps.size - len(columns.steps.free) < 60
    batch = batch_of(dataset, np.arange(20), 1.0)
    assert batch.obs.ravel().tolist() == [*range(2980, 3000)] == observed(dataset)


def test_recorded_rows_follow_the_episodes_of_a_dataset() -> None:
    first = create_infinite_replay_buffer(env=Env())
    write(first, range(3), True)
    dataset = create_fifo_replay_buffer(4, episodes=first.episodes)
    write(dataset, range(3, 6), True)
    assert batch_of(dataset, np.arange(4), 1.0).obs.ravel().tolist() == [2, 3, 4, 5] == observed(dataset)


def test_a_copy_of_a_dataset_has_the_same_transitions_and_can_be_extended() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(3))
    copied = copy.deepcopy(dataset)
    write(copied, range(7, 9), True)
    assert observed(copied) == [0, 1, 7, 8] and observed(dataset) == [0, 1]
    assert batch_of(copied, np.arange(4), 1.0).obs.ravel().tolist() == [0, 1, 7, 8]


def test_the_last_frame_is_stored_and_stacked_again() -> None:
    dataset = create_fifo_replay_buffer(
        100, env=Env((2, 4, 4), np.uint8), transition_picker=FrameStackTransitionPicker(2),
        writer_preprocessor=LastFrameWriterPreprocess(),
    )  # fmt: skip
    for t in range(4):
        dataset.append(np.full((2, 4, 4), [[[t]], [[t + 1]]], np.uint8), 0, 1.0)
    assert dataset.episodes[0].observations.shape == (4, 1, 4, 4)
    batch = batch_of(dataset, np.arange(3), 1.0)
    assert batch.obs.dtype == torch.uint8 and batch.obs[:, :, 0, 0].tolist() == [[0, 1], [1, 2], [2, 3]]


def test_tuples_of_arrays_are_stored() -> None:
    env = Env()
    env.observation_space = gymnasium.spaces.Tuple([gymnasium.spaces.Box(0, 9, (n,)) for n in (1, 2)])
    dataset = create_infinite_replay_buffer(env=env)
    for t in range(3):
        dataset.append((np.full(1, t), np.full(2, -t)), 0, 1.0)
    assert [part.shape for part in dataset.episodes[0].observations] == [(3, 1), (3, 2)]
    assert [part[:, 0].tolist() for part in batch_of(dataset, np.arange(2), 1.0).obs] == [[0, 1], [0, -1]]
    with pytest.raises(ValueError, match="observation: got 1 arrays, expected 2"):
        dataset.append(np.zeros(1), 0, 1.0)


def test_a_row_of_another_shape_is_rejected() -> None:
    dataset = create_infinite_replay_buffer(env=Env())
    write(dataset, range(2))
    with pytest.raises(ValueError, match="shape"):
        dataset.append(np.zeros(5), 0, 1.0)
