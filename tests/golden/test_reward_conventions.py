"""Which reward belongs to which action, worked out by hand for every way into a dataset and out of it.

The observation is its number, the action ten times that, and all rewards differ.
"""

import numpy as np
import pytest

from pfrl_like.dataset import MDPDataset
from pfrl_like.replay_buffers import ReplayBuffer

# Two episodes: states 0, 1, 2 (terminal) and 3, 4 (cut off).
#   state 0 --action 0, reward 1--> 1 --action 10, reward 2--> 2 (terminal);   3 --action 30, reward 4--> 4 (cut off)
STEPS = [(0, 0, 1, 1, False), (1, 10, 2, 2, True), (3, 30, 4, 4, False)]  # obs, action, reward, next obs, terminal


def obs(*numbers: int) -> np.ndarray:
    return np.array([[n, -n] for n in numbers], np.float32)


def actions(*numbers: int) -> np.ndarray:
    return np.array([[n] for n in numbers], np.float32)


def document() -> MDPDataset:
    """The constructor: the reward of row t + 1 pays the action of row t; those of rows 0 and 3 precede any action."""
    return MDPDataset(
        obs(0, 1, 2, 3, 4),
        actions(0, 10, 20, 30, 40),
        np.array([7.0, 1.0, 2.0, 8.0, 4.0]),
        np.array([0, 0, 1, 0, 0]),
    )


def same_row() -> MDPDataset:
    """Rows pay for themselves; what came of the last one of each episode is told."""
    return MDPDataset.from_arrays(
        obs(0, 1, 3),
        actions(0, 10, 30),
        np.array([1.0, 2.0, 4.0]),
        np.array([0, 1, 0]),
        np.array([0, 0, 1]),
        obs(1, 2, 4),
    )


def replay() -> ReplayBuffer:
    buffer = ReplayBuffer()
    for state, action, reward, next_state, terminal in STEPS:
        buffer.append(obs(state)[0], actions(action)[0], reward, obs(next_state)[0], is_state_terminal=terminal)
        if not terminal and state == 3:
            buffer.stop_current_episode()
    return buffer


def from_replay() -> MDPDataset:
    return MDPDataset.from_buffer(replay())


def frame() -> MDPDataset:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {"x": [0, 1, 3, 4], "y": [0, -1, -3, -4], "a": [0, 10, 30, 40], "r": [1, 2, 4, 9], "end": [0, 1, 0, 0]}
    )
    return MDPDataset.from_dataframe(table, ["x", "y"], ["a"], reward="r", terminal="end")


def steps_of(dataset: MDPDataset) -> list[tuple]:
    batch = dataset.batch(np.arange(dataset.n_steps), gamma=0.5)
    return [
        (int(o[0]), int(a[0]), float(r), None if d == 0 else int(n[0]), bool(d == 0))
        for o, a, r, n, d in zip(batch.obs, batch.action, batch.reward, batch.next_obs, batch.discount, strict=True)
    ]


EXPECTED = [(o, a, r, None if t else n, t) for o, a, r, n, t in STEPS]
WAYS = [document, same_row, from_replay, frame]


@pytest.mark.parametrize("make", WAYS)
def test_every_action_has_its_own_reward(make) -> None:
    assert steps_of(make()) == EXPECTED


@pytest.mark.parametrize("make", WAYS)
def test_transitions_have_it_as_next_reward(make) -> None:
    dataset = make()
    found = [
        (int(t.observation[0]), int(t.action[0]), t.next_reward, bool(t.terminal))
        for e in dataset
        for t in e.transitions
    ]
    assert found == [(o, a, r, t) for o, a, r, _, t in STEPS]
    assert [episode.compute_return() for episode in dataset] == [3, 4]  # 1 + 2, and 4


def test_the_constructor_shows_its_arrays_again() -> None:
    dataset = document()
    assert dataset.rewards.tolist() == [7, 1, 2, 8, 4]
    assert dataset.terminals.tolist() == [0, 0, 1, 0, 0] and dataset.timeouts.tolist() == [0, 0, 0, 0, 1]
    assert dataset.observations[:, 0].tolist() == [0, 1, 2, 3, 4] and dataset.actions.ravel().tolist() == [
        0,
        10,
        20,
        30,
        40,
    ]
    assert [t.reward for e in dataset for t in e] == [7, 1, 8]  # what came with the observations


@pytest.mark.parametrize("make", WAYS)
def test_to_arrays_pays_in_the_same_row(make) -> None:
    arrays = make().to_arrays()
    assert arrays["rewards"].tolist() == [1, 2, 4]
    assert arrays["terminals"].tolist() == [0, 1, 0] and arrays["timeouts"].tolist() == [0, 0, 1]
    assert steps_of(MDPDataset.from_arrays(**arrays)) == EXPECTED


@pytest.mark.parametrize("make", WAYS)
def test_a_replay_buffer_of_it_holds_the_same(make) -> None:
    items = [item[0] for item in ReplayBuffer.from_dataset(make()).memory]
    found = [(int(s["state"][0]), int(s["action"][0]), s["reward"], s["is_state_terminal"]) for s in items]
    assert found == [(o, a, r, t) for o, a, r, _, t in STEPS]
    assert [int(s["next_state"][0]) for s in items if not s["is_state_terminal"]] == [1, 4]


@pytest.mark.parametrize("make", WAYS)
@pytest.mark.parametrize("convention", ["next_row", "same_row"])
@pytest.mark.parametrize("name", ["data.npz", "data.h5"])
def test_every_file_keeps_it(make, convention: str, name: str, tmp_path) -> None:
    if name.endswith("h5"):
        pytest.importorskip("h5py")
    make().dump(tmp_path / name, reward_convention=convention)
    assert steps_of(MDPDataset.load(tmp_path / name)) == EXPECTED


@pytest.mark.parametrize("make", WAYS)
def test_minari_files_keep_it(make, tmp_path) -> None:
    pytest.importorskip("h5py")
    make().dump_minari(tmp_path, "tiny/test-v0")
    assert steps_of(MDPDataset.load_minari(tmp_path / "tiny/test-v0")) == EXPECTED


def test_what_a_file_without_a_convention_means_has_to_be_said(tmp_path) -> None:
    rows = dict(
        observations=obs(0, 1, 2, 3, 4), actions=actions(0, 10, 20, 30, 40), rewards=np.array([7.0, 1, 2, 8, 4]),
        terminals=np.array([0, 0, 1, 0, 0]),
    )  # fmt: skip
    np.savez(tmp_path / "foreign.npz", **rows)
    with pytest.raises(ValueError, match="reward_convention"):
        MDPDataset.load(tmp_path / "foreign.npz")
    assert steps_of(MDPDataset.load(tmp_path / "foreign.npz", reward_convention="next_row")) == EXPECTED
    same = steps_of(MDPDataset.load(tmp_path / "foreign.npz", reward_convention="same_row"))
    assert [(o, r) for o, _, r, _, _ in same] == [(0, 7), (1, 1), (2, 2), (3, 8)]


def test_n_step_rewards_are_discounted_sums_of_the_right_ones() -> None:
    batch = document().batch(np.arange(3), gamma=0.5, num_steps=2)
    assert batch.reward.tolist() == [1 + 0.5 * 2, 2, 4]
    assert batch.discount.tolist() == [0, 0, 0.5]
    assert batch.next_obs[2, 0] == 4
