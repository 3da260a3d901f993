"""Which reward belongs to which action, worked out by hand for every way into a dataset and out of it.

The observation is its number, the action ten times that, and all rewards differ.
"""

import copy
import pickle
import types
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box

from pfrl_like import online
from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.dataset.selection import batch_of
from pfrl_like.replay_buffers import ReplayBuffer

# Two episodes: states 0, 1, 2 (terminal) and 3, 4 (cut off).
#   state 0 --action 0, reward 1--> 1 --action 10, reward 2--> 2 (terminal);   3 --action 30, reward 4--> 4 (cut off)
STEPS = [(0, 0, 1, 1, False), (1, 10, 2, 2, True), (3, 30, 4, 4, False)]  # obs, action, reward, next obs, terminal


def obs(*numbers: int) -> np.ndarray:
    return np.array([[n, -n] for n in numbers], np.float32)


def actions(*numbers: int) -> np.ndarray:
    return np.array([[n] for n in numbers], np.float32)


DOCUMENTED = obs(0, 1, 2, 3, 4), actions(0, 10, 20, 30, 40), np.array([7.0, 1, 2, 8, 4]), np.array([0, 0, 1, 0, 0])
DECLARED = obs(0, 1, 3, 4), actions(0, 10, 30, 40), np.array([1.0, 2, 4, 9]), np.array([0, 1, 0, 0])


def document() -> MDPDataset:
    """The constructor: the reward of row t + 1 pays the action of row t; those of rows 0 and 3 precede any action."""
    return MDPDataset(*DOCUMENTED, reward_convention="next_row")


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


def declared() -> MDPDataset:
    """The constructor with rows that pay for themselves; the last row of what was cut off is its last observation."""
    return MDPDataset(*DECLARED, reward_convention="same_row")


def replay() -> ReplayBuffer:
    buffer = ReplayBuffer()
    for state, action, reward, next_state, terminal in STEPS:
        buffer.append(obs(state)[0], actions(action)[0], reward, obs(next_state)[0], is_state_terminal=terminal)
        if not terminal and state == 3:
            buffer.stop_current_episode()
    return buffer


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
SHOWN_AS_DOCUMENTED = [document, same_row, lambda: MDPDataset.from_buffer(replay()), frame]
WAYS = [*SHOWN_AS_DOCUMENTED, declared]


@pytest.mark.parametrize("make", WAYS)
def test_every_action_has_its_own_reward(make) -> None:
    assert steps_of(make()) == EXPECTED


@pytest.mark.parametrize("make", SHOWN_AS_DOCUMENTED)
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
    assert dataset.observations[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert dataset.actions.ravel().tolist() == [0, 10, 20, 30, 40]
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
    names = ("observations", "actions", "rewards", "terminals")
    np.savez(tmp_path / "foreign.npz", **dict(zip(names, DOCUMENTED, strict=True)))
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


def test_the_same_arrays_mean_other_rewards_in_each_convention() -> None:
    same, following = (MDPDataset(*DECLARED, reward_convention=name) for name in ("same_row", "next_row"))
    assert steps_of(same) == EXPECTED
    assert steps_of(following) == [(0, 0, 2, None, True), (3, 30, 9, 4, False)]


def all_columns(dataset: MDPDataset) -> dict[str, list]:
    """Everything that learning reads, n-step returns and what comes after included."""
    table, index = dataset.table, np.arange(dataset.n_steps)
    batch = dataset.batch(index, gamma=0.5, num_steps=2)
    found = {name: getattr(batch, name) for name in ("obs", "action", "reward", "next_obs", "discount")}
    found |= {name: getattr(table, name) for name in ("reward", "action", "terminated", "lengths", "lead", "made_up")}
    found |= {name: getattr(table.columns, name)[: table.n_rows + 1] for name in ("terminal", "obs_row", "successor")}
    return {name: values.tolist() for name, values in found.items()}


@pytest.mark.parametrize("timeouts", [None, [0, 0, 1, 0, 0, 0, 0]])
def test_same_row_learns_what_from_arrays_learns(timeouts: list[int] | None) -> None:
    arrays = obs(*range(7)), actions(*range(0, 70, 10)), np.arange(1.0, 8), np.array([0, 1, 0, 0, 1, 0, 0])
    given = MDPDataset(*arrays, timeouts=timeouts, reward_convention="same_row")
    assert all_columns(given) == all_columns(MDPDataset.from_arrays(*arrays, timeouts))


def shown(dataset: MDPDataset) -> dict[str, list]:
    names = ("observations", "actions", "rewards", "terminals", "timeouts")
    found = {name: getattr(dataset, name).tolist() for name in names}
    of_episodes = {name: [row for e in dataset for row in getattr(e, name).tolist()] for name in names[:4]}
    assert of_episodes == {name: found[name] for name in names[:4]}
    return found


def test_same_row_shows_its_arrays_again() -> None:
    found = shown(declared())
    assert found["observations"] == obs(0, 1, 3, 4).tolist() and found["actions"] == actions(0, 10, 30, 40).tolist()
    assert found["rewards"] == [1, 2, 4, 0]  # that of row 3 pays for what nobody has told
    assert found["terminals"] == [False, True, False, False] and found["timeouts"] == [False, False, False, True]
    assert [(t.reward, t.next_reward, t.action_reward) for e in declared() for t in e] == [
        (1, 2, 1), (2, 0, 2), (4, 0, 4),
    ]  # fmt: skip
    assert [episode.compute_return() for episode in declared()] == [3, 4]


def test_minibatches_show_rewards_as_their_dataset_does() -> None:
    for make, rewards, next_rewards in ((document, [7, 1, 8], [1, 2, 4]), (declared, [1, 2, 4], [2, 0, 0])):
        batch = TransitionMiniBatch([t for e in make() for t in e])
        assert batch.reward_convention == make().reward_convention
        assert batch.rewards.ravel().tolist() == rewards and batch.next_rewards.ravel().tolist() == next_rewards
        assert batch.action_rewards.ravel().tolist() == [1, 2, 4]
        assert batch_of(batch, 0.5, "cpu", False).reward.tolist() == [1, 2, 4]
    with pytest.raises(ValueError, match="transitions: got both reward conventions"):
        TransitionMiniBatch([*document()[0], *declared()[0]])


KEEPING = {
    "slices": lambda dataset, _: MDPDataset.from_episodes(dataset[:]),
    "copies": lambda dataset, _: copy.deepcopy(dataset),
    "pickles": lambda dataset, _: pickle.loads(pickle.dumps(dataset)),
    "npz": lambda dataset, folder: through_file(dataset, folder / "data.npz"),
    "h5": lambda dataset, folder: through_file(dataset, folder / "data.h5"),
    "npz in the other": lambda dataset, folder: through_file(dataset, folder / "data.npz", "same_row"),
    "frames": lambda dataset, _: MDPDataset.from_dataframe(
        dataset.to_dataframe(), ["observation_0", "observation_1"], ["action_0"], timeout="timeout"
    ),
    "buffers": lambda dataset, _: MDPDataset.from_buffer(
        ReplayBuffer.from_dataset(dataset), reward_convention=dataset.reward_convention
    ),
}


def through_file(dataset: MDPDataset, path: Path, convention: str | None = None) -> MDPDataset:
    dataset.dump(path, reward_convention=convention)
    return MDPDataset.load(path)


@pytest.mark.parametrize("make", [document, declared])
@pytest.mark.parametrize("way", KEEPING)
def test_a_dataset_keeps_its_convention(make, way: str, tmp_path) -> None:
    for needed in {"h5": ["h5py"], "frames": ["pandas"]}.get(way, []):
        pytest.importorskip(needed)
    again = KEEPING[way](make(), tmp_path)
    assert again.reward_convention == make().reward_convention and steps_of(again) == EXPECTED
    assert [t.action_reward for e in again for t in e] == [1, 2, 4]
    again.append(obs(5, 6), actions(50, 60), np.array([5.0, 6.0]), np.array([0, 1]))
    assert steps_of(again)[3:] == {
        "next_row": [(5, 50, 6, None, True)], "same_row": [(5, 50, 5, 6, False), (6, 60, 6, None, True)],
    }[again.reward_convention]  # fmt: skip


@pytest.mark.parametrize("way", [way for way in KEEPING if way != "buffers"])
def test_what_same_row_shows_is_kept(way: str, tmp_path) -> None:
    for needed in {"h5": ["h5py"], "frames": ["pandas"]}.get(way, []):
        pytest.importorskip(needed)
    assert shown(KEEPING[way](declared(), tmp_path)) == shown(declared())


def test_episodes_of_another_convention_are_shown_in_that_of_the_dataset() -> None:
    dataset = declared()
    dataset.extend(document())
    assert steps_of(dataset) == EXPECTED * 2
    assert dataset.rewards.tolist() == [1, 2, 4, 0] * 2
    other = document()
    other.extend(declared())
    assert steps_of(other) == EXPECTED * 2
    assert other.rewards.tolist() == [7, 1, 2, 8, 4, 0, 1, 2, 0, 4]  # 0 where nobody told a reward


def test_clipped_rewards_are_those_of_the_same_actions() -> None:
    dataset = declared()
    dataset.clip_reward(1.5, 3)
    assert dataset.rewards.tolist() == [1.5, 2, 3, 0] and dataset.reward_convention == "same_row"
    assert [r for _, _, r, _, _ in steps_of(dataset)] == [1.5, 2, 3]


def test_episodes_of_same_row_fill_a_buffer_of_rows() -> None:
    env = types.SimpleNamespace(observation_space=Box(-9, 9, (2,)), action_space=Box(0, 99, (1,)))
    buffer = online.buffers.ReplayBuffer(10, env, declared().episodes)
    assert [(t.observation[0], t.next_reward, t.terminal) for t in buffer.transitions] == [
        (0, 1, 0), (1, 2, 1), (3, 4, 0),
    ]  # fmt: skip
