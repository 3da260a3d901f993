"""Recorded log-probabilities of the actions: a column that goes where the actions go."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfrl_like.dataset import Episode, MDPDataset
from pfrl_like.errors import CheckpointError, NonFiniteError
from pfrl_like.replay_buffers import ReplayBuffer

#: Two episodes of two steps, the first of which ends in a terminal state; what row i recorded is -i.
LOG_PROBS = -np.arange(6.0)
OF_STEPS = [0.0, -1.0, -3.0, -4.0]


def numbered(**options: Any) -> MDPDataset:
    return MDPDataset(
        np.arange(6.0)[:, None], np.zeros(6, int), np.zeros(6), [0, 0, 1, 0, 0, 0], True, timeouts=[0, 0, 0, 0, 0, 1],
        **{"log_probs": LOG_PROBS, **options}, reward_convention="next_row",
    )  # fmt: skip


def of_steps(dataset: MDPDataset) -> list[float]:
    recorded = [episode.log_probs[:-1] for episode in dataset.episodes]
    return [float(value) for value in np.concatenate(recorded)]


def buffer_of(log_probs: list[float | None]) -> ReplayBuffer:
    buffer = ReplayBuffer(10)
    for i, log_prob in enumerate(log_probs, 1):
        obs = np.full(1, i, np.float32)
        buffer.append(obs, 0, 0.0, obs + 1, is_state_terminal=i == len(log_probs), log_prob=log_prob)
    return buffer


def test_they_lie_beside_the_actions() -> None:
    data = numbered()
    np.testing.assert_array_equal(data.log_probs, LOG_PROBS)
    np.testing.assert_array_equal(data.episodes[1].log_probs, LOG_PROBS[3:])
    np.testing.assert_array_equal(MDPDataset.from_episodes(data[1:]).log_probs, LOG_PROBS[3:])
    assert numbered(log_probs=None).log_probs is None and numbered(log_probs=None).episodes[0].log_probs is None
    alone = Episode((1,), 1, np.zeros((3, 1)), np.zeros(3, int), np.zeros(3), log_probs=LOG_PROBS[:3])
    np.testing.assert_array_equal(alone.log_probs, LOG_PROBS[:3])


def test_arrays_that_pay_in_the_same_row_keep_them() -> None:
    arrays = numbered().to_arrays()
    np.testing.assert_array_equal(arrays["log_probs"], OF_STEPS)
    assert of_steps(MDPDataset.from_arrays(**arrays)) == OF_STEPS
    assert "log_probs" not in numbered(log_probs=None).to_arrays()


def test_they_are_appended_and_clipped_rewards_leave_them_alone() -> None:
    data = numbered()
    data.append(np.zeros((2, 1)), np.zeros(2, int), np.zeros(2), [0, 1], log_probs=[-7, 0])
    data.extend(numbered())
    data.clip_reward(-1, 1)
    assert of_steps(data) == [*OF_STEPS, -7.0, *OF_STEPS]


@pytest.mark.parametrize("ours", [True, False])
def test_data_with_and_without_them_are_not_mixed(ours: bool) -> None:
    data, other = numbered(), numbered(log_probs=None)
    with pytest.raises(ValueError, match="log_probs: got .*, expected .* as in the dataset"):
        data.extend(other) if ours else other.extend(data)
    with pytest.raises(ValueError, match="log_probs: got none"):
        data.append(np.zeros((2, 1)), np.zeros(2, int), np.zeros(2), [0, 1])


@pytest.mark.parametrize(
    ("given", "error"), [(np.zeros(5), ValueError), ([0, 0, np.nan, 0, 0, 0], NonFiniteError), ("no", ValueError)]
)
def test_what_they_cannot_be_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="log_probs"):
        numbered(log_probs=given)


@pytest.mark.parametrize("name", ["data.h5", "data.npz"])
@pytest.mark.parametrize("convention", ["next_row", "same_row"])
def test_files_hold_them(name: str, convention: str, tmp_path: Path) -> None:
    numbered().dump(tmp_path / name, reward_convention=convention)
    assert of_steps(MDPDataset.load(tmp_path / name)) == OF_STEPS
    numbered(log_probs=None).dump(tmp_path / name)
    assert MDPDataset.load(tmp_path / name).log_probs is None


def test_frames_hold_them() -> None:
    pytest.importorskip("pandas")
    frame = numbered().to_dataframe()
    columns = {"observations": ["observation_0"], "actions": "action", "timeout": "timeout", "log_prob": "log_prob"}
    again = MDPDataset.from_dataframe(frame, **columns)
    assert of_steps(again) == OF_STEPS


def test_minari_has_them_as_an_info(tmp_path: Path) -> None:
    numbered().dump_minari(tmp_path, "ours/numbered-v0")
    assert of_steps(MDPDataset.load_minari(tmp_path / "ours/numbered-v0")) == OF_STEPS
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "ours/numbered-v0/data/main_data.hdf5", "r+") as file:
        np.testing.assert_array_equal(file["episode_1/infos/log_prob"], [0, -3, -4])
        del file["episode_1/infos/log_prob"]
        file["episode_1/infos/log_prob"] = [-3.0, -4.0]
    with pytest.raises(CheckpointError, match="log_prob"):
        MDPDataset.load_minari(tmp_path / "ours/numbered-v0")


def test_minari_without_them_in_some_episode_has_none(tmp_path: Path) -> None:
    numbered().dump_minari(tmp_path, "ours/numbered-v0")
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "ours/numbered-v0/data/main_data.hdf5", "r+") as file:
        del file["episode_0/infos"]
    assert MDPDataset.load_minari(tmp_path / "ours/numbered-v0").log_probs is None


@pytest.mark.parametrize("all_have", [True, False])
def test_buffers_give_them_if_all_steps_have_one(all_have: bool) -> None:
    data = MDPDataset.from_buffer(buffer_of([0.0 if all_have else None, -1.0, -2.0, -3.0]))
    assert (of_steps(data) == [0.0, -1.0, -2.0, -3.0]) if all_have else data.log_probs is None


def test_discrete_actions_are_not_more_than_certain(tmp_path: Path) -> None:
    positive, arrays = np.append(LOG_PROBS[:5], 0.7), numbered().to_arrays()
    refused = pytest.raises(ValueError, match=r"log_probs?: got 0\.7 in row \d, expected .* <= 0")
    with refused:
        numbered(log_probs=positive)
    with refused:
        MDPDataset.from_arrays(**arrays | {"log_probs": [-1, -1, 0.7, -1]})
    with refused:
        numbered().append(np.zeros((2, 1)), np.zeros(2, int), np.zeros(2), [0, 1], log_probs=[0.7, 0])
    with refused:
        MDPDataset.from_buffer(buffer_of([-1.0, 0.7]))
    data = {name: getattr(numbered(), name) for name in ("observations", "actions", "rewards", "terminals")}
    np.savez(tmp_path / "data.npz", **data, log_probs=positive)
    with pytest.raises(CheckpointError, match=r"log_probs: got 0\.7 in row 5"):
        MDPDataset.load(tmp_path / "data.npz", reward_convention="next_row")


def test_rounding_and_densities_may_be_positive() -> None:
    assert numbered(log_probs=np.full(6, 1e-6)).log_probs.max() == 1e-6
    densities = MDPDataset(
        np.zeros((2, 1)), np.zeros((2, 1)), np.zeros(2), [0, 1], log_probs=[0.7, 0], reward_convention="next_row"
    )
    assert of_steps(densities) == [0.7]
