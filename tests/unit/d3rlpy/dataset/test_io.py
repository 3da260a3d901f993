import io
from pathlib import Path

import numpy as np
import pytest
from d3rlpy_parts import numbered, observed

from pfrl_like.d3rlpy.dataset import InfiniteBuffer, MDPDataset, ReplayBuffer, load_v1
from pfrl_like.dataset import MDPDataset as LibraryDataset
from pfrl_like.errors import CheckpointError

h5py = pytest.importorskip("h5py")
DATA = Path(__file__).parents[3] / "data" / "d3rlpy_2_8"
FIELDS = ("observation", "action", "reward", "next_observation", "next_action", "terminal", "interval")


def loaded(f) -> ReplayBuffer:
    return ReplayBuffer.load(f, InfiniteBuffer())


def columns(dataset) -> list:
    return [(e.observations.tolist(), e.actions.tolist(), e.rewards.tolist(), e.terminated) for e in dataset.episodes]


@pytest.mark.parametrize("name", ["discrete", "continuous"])
@pytest.mark.parametrize("source", ["arrays", "file"])
def test_a_dataset_is_that_of_d3rlpy(name: str, source: str) -> None:
    """Arrays, and the file that d3rlpy 2.8.1 wrote of them, beside the transitions that it made."""
    with np.load(DATA / "datasets.npz") as facts:
        expected = {key.removeprefix(f"{name}."): facts[key] for key in facts.files if key.startswith(name)}
    arrays = [expected[key] for key in ("observations", "actions", "rewards", "terminals", "timeouts")]
    dataset = MDPDataset(*arrays) if source == "arrays" else loaded(DATA / f"{name}.h5")
    assert [e.size() for e in dataset.episodes] == expected["episode_sizes"].tolist()
    assert [e.transition_count for e in dataset.episodes] == expected["episode_transitions"].tolist()
    assert [e.terminated for e in dataset.episodes] == expected["terminated"].tolist()
    assert [e.compute_return() for e in dataset.episodes] == pytest.approx(expected["returns"])
    transitions = [dataset.transition_picker(*dataset.buffer[i]) for i in range(dataset.transition_count)]
    for field in FIELDS:
        values = np.array([getattr(transition, field) for transition in transitions])
        assert values.dtype == expected[f"transition_{field}s"].dtype
        assert np.array_equal(values, expected[f"transition_{field}s"])


@pytest.mark.parametrize("kind", ["path", "file", "bytes"])
def test_a_written_file_is_read_again(kind: str, tmp_path) -> None:
    dataset = numbered("t--o--t-o")
    f = {"path": tmp_path / "data.h5", "file": open(tmp_path / "data.h5", "w+b"), "bytes": io.BytesIO()}[kind]  # noqa: SIM115
    dataset.dump(f)
    assert columns(loaded(f)) == columns(dataset)
    assert MDPDataset.load(f, InfiniteBuffer()).dataset_info == dataset.dataset_info


def test_a_written_file_has_the_names_and_types_of_d3rlpy(tmp_path) -> None:
    numbered("-t-o").dump(tmp_path / "data.h5")
    with h5py.File(DATA / "discrete.h5") as theirs, h5py.File(tmp_path / "data.h5") as ours:
        assert [*ours["columns"]] == [*theirs["columns"]] and ours["version"][()] == theirs["version"][()]
        assert ours["num_episodes"][()] == 2 and set(ours) == {*theirs} - {
            f"{c}_{i}" for c in COLUMNS for i in (2, 3, 4)
        }
        assert {name: (ours[name].ndim, ours[name].dtype.kind) for name in ours} == {
            name: (theirs[name].ndim, theirs[name].dtype.kind) for name in ours
        }


COLUMNS = ("observations", "actions", "rewards", "terminated")


def test_tuples_of_observations_are_written_and_read(tmp_path) -> None:
    arrays = np.arange(3.0).reshape(3, 1), np.arange(6.0).reshape(3, 2)
    numbered("--t", observations=arrays).dump(tmp_path / "data.h5")
    first, second = loaded(tmp_path / "data.h5").episodes[0].observations
    assert np.array_equal(first, arrays[0]) and np.array_equal(second, arrays[1])


def test_a_file_of_the_layer_is_a_dataset_of_the_library(tmp_path) -> None:
    numbered("-t-o").dump(tmp_path / "data.h5")
    arrays = LibraryDataset.load(tmp_path / "data.h5").to_arrays()
    assert arrays["rewards"].tolist() == [0.5, 1.5, 3.5] and arrays["actions"].tolist() == [0, 1, 2]
    assert arrays["terminals"].tolist() == [False, True, False] and arrays["timeouts"].tolist() == [False, False, True]


def test_a_file_of_the_library_is_a_dataset_of_the_layer(tmp_path) -> None:
    rewards = np.array([0.5, 1.5, 3.5, 7.5])
    flags = np.array([0, 1, 0, 0]), np.array([0, 0, 0, 1])
    rows = np.arange(4, dtype=np.float32).reshape(4, 1), np.arange(4)
    same = LibraryDataset(*rows, rewards, flags[0], True, timeouts=flags[1], reward_convention="same_row")
    same.dump(tmp_path / "same.h5")
    episodes = load_v1(tmp_path / "same.h5")
    assert [e.rewards.ravel().tolist() for e in episodes] == [[0.5, 1.5], [3.5, 0.0]]  # the last one is unknown
    assert [e.terminated for e in episodes] == [True, False]
    same.dump(tmp_path / "next.h5", reward_convention="next_row")
    with pytest.raises(CheckpointError, match='"next_row": read it with pfrl_like.dataset.MDPDataset.load'):
        load_v1(tmp_path / "next.h5")


def test_files_of_d3rlpy_1_have_rewards_in_the_row_of_their_action(tmp_path) -> None:
    with h5py.File(tmp_path / "v1.h5", "w") as file:
        file["observations"], file["actions"] = np.arange(5.0).reshape(5, 1), np.arange(5)
        file["rewards"], file["terminals"] = np.arange(5) + 0.5, np.array([0, 1, 0, 0, 0.0])
        file["episode_terminals"], file["discrete_action"] = np.array([0, 1, 0, 0, 1.0]), True
        file["version"] = "1.0"
    with open(tmp_path / "v1.h5", "rb") as f:
        episodes = load_v1(f)
    assert [e.rewards.ravel().tolist() for e in episodes] == [[0.5, 1.5], [2.5, 3.5, 4.5]]
    assert [e.terminated for e in episodes] == [True, False]
    with pytest.raises(CheckpointError, match="no dataset of d3rlpy 2: call load_v1"):
        loaded(tmp_path / "v1.h5")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("num_episodes", 10**9, "num_episodes"),
        ("rewards_0", np.zeros((1, 1)), "different lengths"),
        ("actions_1", None, "no 'actions_1'"),
        ("observations_0", h5py.ExternalLink("other.h5", "/x"), "link"),
    ],
)
def test_damaged_and_hostile_files_are_rejected(name: str, value, text: str, tmp_path) -> None:
    numbered("-t-o").dump(tmp_path / "data.h5")
    with h5py.File(tmp_path / "data.h5", "a") as file:
        del file[name]
        if value is not None:
            file[name] = value
    with pytest.raises(CheckpointError, match=text):
        loaded(tmp_path / "data.h5")


def test_loaded_episodes_share_one_array_with_the_columns() -> None:
    dataset = loaded(DATA / "discrete.h5")
    stored = dataset.columns.columns.obs.leaves[0].data
    assert all(np.shares_memory(stored, episode.observations) for episode in dataset.episodes)
    assert len(observed(dataset)) == 197
