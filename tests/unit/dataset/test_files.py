import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from dataset_parts import next_row

from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import CheckpointError

h5py = pytest.importorskip("h5py")
DATA = Path(__file__).parents[2] / "data"
NAMES = ["data.h5", "data.npz"]


def numbered(n: int = 5, **options) -> MDPDataset:
    row = np.arange(n, dtype=np.float32)
    flags = row == 2
    return next_row(np.stack([row, -row], 1), 10 * row[:, None], row + 0.5, flags, **options)


def flat(**changes) -> dict:
    arrays = {name: getattr(numbered(), name) for name in ("observations", "actions", "rewards", "terminals")}
    return arrays | changes


def test_the_case_of_an_ending_makes_no_difference(tmp_path) -> None:
    numbered().dump(tmp_path / "data.NPZ")
    with np.load(tmp_path / "data.NPZ", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["observations"], numbered().observations)


def write(path: Path, arrays: dict) -> Path:
    """A file of these arrays and nothing else."""
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, values in arrays.items():
                file[name] = values
    return path


@pytest.mark.parametrize("name", NAMES)
def test_what_was_not_told_is_not_told_after_loading(name: str, tmp_path) -> None:
    MDPDataset.from_arrays(np.ones((2, 1)), np.array([2, 3]), np.ones(2), np.array([0, 1])).dump(tmp_path / name)
    loaded = MDPDataset.load(tmp_path / name)
    assert loaded.is_action_discrete() and loaded.get_action_size() == 4
    assert loaded.compute_stats()["reward"]["mean"] == 1 and loaded.n_steps == 2


def never_taken() -> MDPDataset:
    """An episode of the actions 0 and 1, from a dataset that has 7, too."""
    both = MDPDataset.from_arrays(np.ones((4, 1)), np.array([0, 1, 7, 0]), np.ones(4), np.array([0, 1, 0, 1]))
    return MDPDataset.from_episodes(both[:1])


@pytest.mark.parametrize("convention", ["next_row", "same_row"])
@pytest.mark.parametrize("name", NAMES)
def test_actions_that_nobody_took_are_known_of_after_loading(name: str, convention: str, tmp_path) -> None:
    never_taken().dump(tmp_path / name, reward_convention=convention)
    loaded = MDPDataset.load(tmp_path / name)
    assert loaded.actions.max() == 1 and loaded.get_action_size() == 8


@pytest.mark.parametrize("change", [{}, {"n": 10**9}, {"n": "8"}, {"start": 3}, {"type": "Box"}, [], None])
def test_minari_folders_tell_of_actions_that_nobody_took(change, tmp_path) -> None:
    never_taken().dump_minari(tmp_path, "tiny/test-v0")
    path = tmp_path / "tiny/test-v0/data/metadata.json"
    meta = json.loads(path.read_text())
    space = json.loads(meta["action_space"])
    assert space == {"type": "Discrete", "dtype": "int64", "start": 0, "n": 8}
    changed = space | change if isinstance(change, dict) else change
    path.write_text(json.dumps(meta | {"action_space": json.dumps(changed)}))
    assert MDPDataset.load_minari(tmp_path / "tiny/test-v0").get_action_size() == (2 if change != {} else 8)


def test_other_tools_find_the_arrays_and_the_convention(tmp_path) -> None:
    numbered().dump(tmp_path / "data.h5")
    with h5py.File(tmp_path / "data.h5") as file:
        assert file["rewards"][()].tolist() == [0.5, 1.5, 2.5, 3.5, 4.5]
        assert file.attrs["reward_convention"] == "next_row"
        assert file["episode_terminals"][()].tolist() == [0, 0, 1, 0, 1]


def test_nested_observations_and_images_are_kept(tmp_path) -> None:
    nested = {"a": np.arange(3.0), "b": (np.arange(6, dtype=np.uint8).reshape(3, 2),)}
    next_row(nested, np.zeros((3, 1)), np.zeros(3), np.zeros(3)).dump(tmp_path / "nested.h5")
    loaded = MDPDataset.load(tmp_path / "nested.h5")
    assert loaded[0][1].next_observation["b"][0].tolist() == [4, 5]
    assert loaded.observations["b"][0].dtype == np.uint8
    with pytest.raises(CheckpointError, match="HDF5"):
        loaded.dump(tmp_path / "nested.npz")


def test_observations_stay_in_the_file_if_asked_for(tmp_path) -> None:
    numbered().dump(tmp_path / "data.h5")
    loaded = MDPDataset.load(tmp_path / "data.h5", memory_map=True)
    assert isinstance(loaded.table.obs.plain.base, np.memmap) and not loaded.observations.flags.writeable
    assert loaded.batch(np.arange(3)).next_obs[:, 0].tolist() == [1, 2, 4]
    assert loaded.compute_stats()["observation"]["mean"].tolist() == [2, -2]
    loaded.append(np.zeros((2, 2)), np.zeros((2, 1)), np.zeros(2), np.zeros(2))
    assert len(loaded) == 3
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file.create_dataset("observations", data=np.zeros((5, 2)), compression="gzip")
    with pytest.raises(CheckpointError, match="compressed"):
        MDPDataset.load(tmp_path / "packed.h5", memory_map=True)


def test_files_of_d3rlpy_2_pay_in_the_same_row() -> None:
    dataset = MDPDataset.load(DATA / "d3rlpy_2_8.h5")
    assert [episode.terminated for episode in dataset] == [True, False]
    arrays = dataset.to_arrays()  # of the episode that was cut off, d3rlpy too has the last row as an observation only
    assert arrays["rewards"].tolist() == [1, 2, 3, 4] and arrays["actions"].ravel().tolist() == [0, 10, 20, 30]
    assert arrays["next_observations"][[0, 1, 3], 0].tolist() == [1, 2, 4]


def test_files_of_d3rlpy_0_pay_in_the_next_row() -> None:
    with pytest.raises(CheckpointError, match="reward_convention"):
        MDPDataset.load(DATA / "d3rlpy_0_23.h5")
    arrays = MDPDataset.load(DATA / "d3rlpy_0_23.h5", reward_convention="next_row").to_arrays()
    assert arrays["rewards"].tolist() == [1, 2, 4] and arrays["actions"].ravel().tolist() == [0, 10, 30]


@pytest.mark.parametrize("masks", [{}, {"create_mask": False, "mask_size": 1}])
def test_files_of_d3rlpy_from_0_60_to_1_0_say_their_convention_by_ends_without_a_version(masks: dict, tmp_path) -> None:
    arrays = flat(episode_terminals=np.array([0, 0, 1, 0, 1]), discrete_action=False, **masks)
    path = write(tmp_path / "zero.h5", arrays)
    assert MDPDataset.load(path).to_arrays()["rewards"].tolist() == [1.5, 2.5, 4.5]
    with pytest.raises(CheckpointError, match="the data contain 'next_row'"):
        MDPDataset.load(path, reward_convention="same_row")


def test_files_of_d3rlpy_1_say_their_convention_by_a_version(tmp_path) -> None:
    arrays = flat(episode_terminals=np.array([0, 0, 1, 0, 1]), discrete_action=False, version="1.0")
    path = write(tmp_path / "one.h5", arrays)
    assert MDPDataset.load(path).to_arrays()["rewards"].tolist() == [0.5, 1.5, 2.5, 3.5]
    with pytest.raises(CheckpointError, match="the data contain 'same_row'"):
        MDPDataset.load(path, reward_convention="next_row")


def test_files_of_d4rl_load_with_their_timeouts(tmp_path) -> None:
    path = write(tmp_path / "d4rl.hdf5", flat(timeouts=np.array([0, 0, 0, 1, 0])))
    dataset = MDPDataset.load(path, reward_convention="same_row")
    assert [len(episode) for episode in dataset] == [3, 0, 0]  # nobody has told what came after row 3, or row 4


BAD_ARRAYS = [
    ({"rewards": np.zeros(4)}, "rewards: got shape"),
    ({"observations": np.full((5, 2), np.nan)}, "observations: got .*row 0"),
    ({"terminals": np.array([0, 0, 3, 0, 0])}, "terminals: got 3 in row 2"),
    ({"timeouts": np.array([0, 0, 1, 0, 0])}, "both are set in row 2"),
    ({"actions": np.array([0, 1, -1, 0, 0]), "discrete_action": np.array(True)}, "actions: got -1 in row 2"),
    ({"made_up": np.array([0, 9])}, "made_up"),
    ({"action_size": np.array(10**12)}, "action_size is .*10+"),
    ({"action_size": np.array([2, 3])}, "action_size"),
    ({"action_size": np.array(np.nan)}, "action_size is .*nan"),
]


@pytest.mark.parametrize("changes, message", BAD_ARRAYS)
@pytest.mark.parametrize("name", NAMES)
def test_files_that_cannot_be_right_are_refused(name: str, changes: dict, message: str, tmp_path) -> None:
    path = write(tmp_path / name, flat(**changes))
    with pytest.raises(CheckpointError, match=message):
        MDPDataset.load(path, reward_convention="next_row")


@pytest.mark.parametrize("name", NAMES)
def test_files_cut_off_anywhere_are_refused(name: str, tmp_path) -> None:
    numbered().dump(tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for length in range(0, len(content) - 1, max(1, len(content) // 40)):
        (tmp_path / name).write_bytes(content[:length])
        with pytest.raises(CheckpointError):
            MDPDataset.load(tmp_path / name)


def test_objects_are_not_unpickled(tmp_path) -> None:
    path = write(tmp_path / "evil.npz", flat(actions=np.array([{}] * 5, object)))
    with pytest.raises(CheckpointError, match="expected numbers"):
        MDPDataset.load(path, reward_convention="next_row")


def test_archives_that_announce_more_than_they_hold_are_refused(tmp_path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("observations.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)})
    with pytest.raises(CheckpointError, match="has a different size"):
        MDPDataset.load(path)


def test_files_do_not_refer_to_other_files(tmp_path) -> None:
    numbered().dump(tmp_path / "other.h5")
    arrays = {name: values for name, values in flat().items() if name != "actions"}
    link, raw = (write(tmp_path / name, arrays) for name in ("link.h5", "raw.h5"))
    with h5py.File(link, "a") as file:
        file["actions"] = h5py.ExternalLink("other.h5", "/actions")
    with h5py.File(raw, "a") as file:
        file.create_dataset("actions", (5, 1), "f4", external=[(str(tmp_path / "other.h5"), 0, 20)])
    for path, message in ((link, "is a link"), (raw, "in other files")):
        with pytest.raises(CheckpointError, match=message):
            MDPDataset.load(path, reward_convention="next_row")


def test_sizes_that_no_storage_explains_are_refused(tmp_path) -> None:
    with h5py.File(tmp_path / "bomb.h5", "w") as file:
        file.create_dataset("observations", (1 << 30, 100), "f8", chunks=(1024, 100))
    with pytest.raises(CheckpointError, match="needs .* bytes"):
        MDPDataset.load(tmp_path / "bomb.h5", memory_map=False)


def minari(tmp_path) -> Path:
    numbered().dump_minari(tmp_path, "tiny/test-v0")
    return tmp_path / "tiny/test-v0"


def test_minari_folders_have_the_form_that_minari_reads(tmp_path) -> None:
    with h5py.File(minari(tmp_path) / "data/main_data.hdf5") as file:
        assert sorted(file) == ["episode_0", "episode_1"]
        assert {name: len(file["episode_0"][name]) for name in file["episode_0"]} == dict(
            observations=3, actions=2, rewards=2, terminations=2, truncations=2
        )
        assert file["episode_1/truncations"][()].tolist() == [True]
    meta = json.loads((tmp_path / "tiny/test-v0/data/metadata.json").read_text())
    assert (meta["total_episodes"], meta["total_steps"], meta["data_format"]) == (2, 3, "hdf5")
    assert json.loads(meta["action_space"])["shape"] == [1]
    with pytest.raises(CheckpointError, match="already"):
        minari(tmp_path)
    with pytest.raises(ValueError, match="dataset_id"):
        numbered().dump_minari(tmp_path, "../elsewhere-v0")


def test_a_folder_is_told_from_a_file(tmp_path) -> None:
    with pytest.raises(CheckpointError, match="is a folder, expected a file: load_minari reads folders of Minari"):
        MDPDataset.load(minari(tmp_path))


def test_images_that_minari_has_compressed_are_read(tmp_path) -> None:
    import io

    from PIL import Image

    images = np.linspace(0, 250, 3, dtype=np.uint8)[:, None, None, None] * np.ones((1, 16, 16, 3), np.uint8)
    folder = minari(tmp_path) / "data"
    meta = json.loads((folder / "metadata.json").read_text())
    meta |= {
        "jpeg_encoding": True,
        "observation_space": json.dumps({"type": "Box", "dtype": "uint8", "shape": [16, 16, 3]}),
    }
    (folder / "metadata.json").write_text(json.dumps(meta))
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        del file["episode_1"], file["episode_0/observations"]
        node = file.create_dataset("episode_0/observations", 3, h5py.vlen_dtype(np.uint8))
        for i, image in enumerate(images):
            stream = io.BytesIO()
            Image.fromarray(image).save(stream, format="JPEG")
            node[i] = np.frombuffer(stream.getvalue(), np.uint8)
    loaded = MDPDataset.load_minari(folder)
    assert np.abs(loaded.observations.astype(int) - images).max() <= 2


def test_damaged_minari_folders_are_refused(tmp_path) -> None:
    folder = minari(tmp_path)
    with h5py.File(folder / "data/main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
        file["episode_0/rewards"] = np.zeros(7)
    with pytest.raises(CheckpointError, match="arrays of lengths"):
        MDPDataset.load_minari(folder)
    (folder / "data/main_data.hdf5").write_bytes(b"nothing")
    with pytest.raises(CheckpointError):
        MDPDataset.load_minari(folder)
    with pytest.raises(CheckpointError):
        MDPDataset.load_minari(tmp_path / "nowhere")


def test_no_file_is_written_that_would_hold_no_row(tmp_path) -> None:
    one = next_row(np.zeros((1, 2), np.float32), np.zeros((1, 1), np.float32), [0.0], [1])
    one.dump(tmp_path / "data.npz")
    assert MDPDataset.load(tmp_path / "data.npz").n_steps == 0
    with pytest.raises(ValueError, match="'same_row' stores transitions, but the dataset has no transitions"):
        one.dump(tmp_path / "none.npz", reward_convention="same_row")
    with pytest.raises(ValueError, match="the dataset has no transitions"):
        one.dump_minari(tmp_path, "none-v0")
    assert [path.name for path in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("load", [MDPDataset.load, MDPDataset.load_minari])
def test_a_bound_that_is_no_number_is_refused_before_anything_is_read(load, tmp_path) -> None:
    with pytest.raises(TypeError, match=r"max_bytes is '10' \(str\), expected an integer"):
        load(tmp_path / "nowhere.npz", max_bytes="10")


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_step_at_the_time_limit_is_terminal(name: str, tmp_path) -> None:
    ends = np.array([0, 1, 0, 0, 1])
    dataset = MDPDataset.load(write(tmp_path / name, flat(terminals=ends, timeouts=ends)), reward_convention="same_row")
    assert [len(episode) for episode in dataset] == [2, 3]
    assert [episode.terminated for episode in dataset] == [True, True]


def test_files_are_not_called_what_they_are_not(tmp_path) -> None:
    for name in ("c.csv", "c.PARQUET", "c.npy"):
        with pytest.raises(ValueError, match=r"\.h5 \(HDF5\) or \.npz"):
            numbered().dump(tmp_path / name)
        (tmp_path / name).write_text("observation,action,reward")
        with pytest.raises(CheckpointError, match=r"is neither HDF5 .*; read the file with pandas"):
            MDPDataset.load(tmp_path / name)
        (tmp_path / name).unlink()
    numbered().dump(tmp_path / "mine.set")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.set"]
    assert len(MDPDataset.load(tmp_path / "mine.set")) == len(numbered())
