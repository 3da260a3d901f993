import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffers import PersistentReplayBuffer, ReplayBuffer


def numbered(n: int = 12) -> MDPDataset:
    row = np.arange(n, dtype=np.float32)
    return next_row(row[:, None], -row[:, None], row, row % 4 == 3)


def states(buffer: ReplayBuffer) -> list[float]:
    return [item[0]["state"][0] for item in buffer.memory]


def test_a_buffer_shares_the_observations_until_it_stores_something() -> None:
    dataset = numbered()
    buffer = ReplayBuffer.from_dataset(dataset)
    assert buffer._columns.plain is not None and np.shares_memory(buffer._columns.plain, dataset.observations)
    assert states(buffer) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    for t in range(3):
        buffer.append(np.float32([100 + t]), np.float32([0]), 1.0, np.float32([101 + t]))
    assert states(buffer)[9:] == [100, 101, 102] and states(buffer)[:3] == [0, 1, 2]
    assert dataset.observations.ravel().tolist() == list(range(12))


def test_a_full_buffer_reuses_rows_without_touching_the_dataset() -> None:
    dataset = numbered()
    buffer = ReplayBuffer.from_dataset(dataset, 5)
    assert states(buffer) == [5, 6, 8, 9, 10]
    for t in range(40):
        buffer.append(np.float32([t]), np.float32([0]), 1.0, np.float32([t + 1]), is_state_terminal=t % 5 == 4)
    assert states(buffer) == [35, 36, 37, 38, 39]
    assert [item[0]["next_state"][0] for item in buffer.memory] == [36, 37, 38, 39, 40]
    assert dataset.observations.ravel().tolist() == list(range(12))


@pytest.mark.parametrize("terminal", [True, False])
def test_episodes_of_several_environments_are_told_apart(terminal: bool) -> None:
    buffer = ReplayBuffer()
    for t in range(3):
        buffer.append_batch(
            np.float32([[t], [10 + t]]), np.array([t, t]), np.array([t + 1.0, t + 11]), np.float32([[t + 1], [11 + t]]),
            [False, terminal and t == 2], [False, False],
        )  # fmt: skip
    dataset = MDPDataset.from_buffer(buffer)
    assert dataset.is_action_discrete()
    assert [episode.observations.ravel().tolist() for episode in dataset] == [[0, 1, 2, 3], [10, 11, 12, 13]]
    assert [episode.terminated for episode in dataset] == [False, terminal]
    assert [episode.compute_return() for episode in dataset] == [6, 36]


def test_waiting_steps_come_along_and_evicted_ones_do_not() -> None:
    buffer = ReplayBuffer(2, num_steps=3)
    for t in range(6):
        buffer.append(np.float32([t]), np.float32([0]), float(t), np.float32([t + 1]))
    assert MDPDataset.from_buffer(buffer)[0].observations.ravel().tolist() == [2, 3, 4, 5, 6]


def test_an_episode_is_cut_where_the_next_observation_is_another() -> None:
    buffer = ReplayBuffer()
    for state, following in [(0, 1), (5, 6), (6, 7)]:
        buffer.append(np.float32([state]), np.float32([0]), 1.0, np.float32([following]))
    dataset = MDPDataset.from_buffer(buffer)
    assert [episode.observations.ravel().tolist() for episode in dataset] == [[0, 1], [5, 6, 7]]


def test_terminal_states_that_nobody_told_are_no_observation() -> None:
    buffer = ReplayBuffer()
    buffer.append(np.float32([1]), 0, 1.0, None, is_state_terminal=True)
    dataset = MDPDataset.from_buffer(buffer)
    assert dataset.batch(np.arange(1)).discount.tolist() == [0]
    assert dataset.compute_stats()["observation"]["mean"] == [1] and len(dataset[0]) == 1


def test_stacked_frames_stay_single() -> None:
    frames = np.random.default_rng(0).integers(0, 255, (12, 20, 20), np.uint8)
    buffer = ReplayBuffer()
    for t in range(8):
        buffer.append(frames[t : t + 4], 0, 1.0, frames[t + 1 : t + 5])
    dataset = MDPDataset.from_buffer(buffer)
    assert (dataset.batch(np.array([3])).next_obs[0].numpy() == frames[4:8]).all()
    assert dataset.get_observation_shape() == (4, 20, 20)
    dataset.extend(dataset)
    assert (dataset[1][7].observation == frames[7:11]).all()
    leaf = dataset.table.obs.leaves[0]
    assert len(np.unique(leaf.index[1:19])) == 24  # 12 frames of each copy, of which stacks would be 36
    again = ReplayBuffer.from_dataset(dataset)
    assert (again.memory[10][0]["state"] == frames[2:6]).all()


def test_a_persistent_buffer_is_filled_and_read_while_it_is_open(tmp_path) -> None:
    with PersistentReplayBuffer.from_dataset(numbered(), tmp_path / "data", None) as buffer:
        assert states(buffer) == [0, 1, 2, 4, 5, 6, 8, 9, 10]
        buffer.append(np.float32([5]), np.float32([0]), 1.0, np.float32([6]))
        buffer.sync()
        dataset = MDPDataset.from_directory(tmp_path / "data")
    assert [len(episode) for episode in dataset] == [3, 3, 3, 1] and dataset[3][0].next_reward == 1


def test_demonstrations_of_a_run_are_found(tmp_path) -> None:
    ReplayBuffer.from_dataset(numbered()).save(str(tmp_path / "demonstrations.replay"))
    assert len(MDPDataset.from_directory(tmp_path)) == 3
    with pytest.raises(CheckpointError, match="neither"):
        MDPDataset.from_directory(tmp_path / "nothing")


def test_changes_of_a_buffers_steps_are_what_a_dataset_is_made_of() -> None:
    buffer = ReplayBuffer()
    for t in range(6):
        buffer.append(np.float32([t]), np.float32([0]), float(t), np.float32([t + 1]))
    buffer.memory[1][0].update(is_state_terminal=True, reward=10.0)
    buffer.memory[3][0]["next_state"] = np.float32([50])
    dataset = MDPDataset.from_buffer(buffer)
    assert dataset.observations.ravel().tolist() == [0, 1, 2, 2, 3, 50, 4, 5, 6]
    again = ReplayBuffer.from_dataset(dataset)
    assert [item[0]["is_state_terminal"] for item in again.memory] == [False, True, False, False, False, False]
    assert [item[0]["reward"] for item in again.memory] == [0, 10, 2, 3, 4, 5]


def test_changes_of_a_buffer_that_shares_a_datasets_observations_leave_the_dataset_alone() -> None:
    dataset = numbered()
    buffer = ReplayBuffer.from_dataset(dataset)
    buffer.memory[0][0].update(action=np.float32([9]), reward=-5.0, is_state_terminal=True)
    buffer.memory[1][0].update(state=np.float32([70]), next_state=np.float32([80]))
    assert states(buffer)[:3] == [0, 70, 2] and buffer.memory[1][0]["next_state"][0] == 80
    assert dataset.observations.ravel().tolist() == list(range(12))
    assert dataset.rewards.tolist() == numbered().rewards.tolist()
    assert dataset.actions.ravel().tolist() == [-t for t in range(12)]
