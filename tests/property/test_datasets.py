"""Datasets against a slow reference: lists of steps, made with one Python loop over the rows."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfrl_like.dataset import MDPDataset, TransitionMiniBatch
from pfrl_like.replay_buffers import ReplayBuffer

GAMMA = 0.7
CONVENTIONS = ["next_row", "same_row"]


def random_rows(seed: int, n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 4, n)
    values = rng.normal(size=(n, 3, 2, 2)).astype(np.float32), rng.normal(size=(n, 2)).astype(np.float32)
    return *values, rng.normal(size=n), ends == 1, ends == 2


def reference_steps(obs, actions, rewards, terminals, timeouts) -> list[list[dict]]:
    """Steps of each episode; the reward of row t + 1 is for the action of row t."""
    episodes, start = [], 0
    for row in range(len(obs)):
        if terminals[row] or timeouts[row] or row == len(obs) - 1:
            episodes.append(
                [
                    dict(
                        row=t, obs=obs[t], action=actions[t], reward=rewards[t + 1], next_obs=obs[t + 1],
                        terminal=bool(terminals[t + 1]), start=start,
                    )
                    for t in range(start, row)
                ]
            )  # fmt: skip
            start = row + 1
    return episodes


def n_step(episode: list[dict], i: int, n: int) -> tuple[float, float, np.ndarray]:
    window = episode[i : i + n]
    reward = sum(GAMMA**k * step["reward"] for k, step in enumerate(window))
    return reward, 0.0 if window[-1]["terminal"] else GAMMA ** len(window), window[-1]["next_obs"]


def stack(obs: np.ndarray, start: int, row: int, k: int) -> np.ndarray:
    return np.concatenate([obs[r] if r >= start else np.zeros_like(obs[0]) for r in range(row - k + 1, row + 1)])


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4), st.integers(1, 3))
def test_batches_are_those_of_the_reference(seed: int, n: int, num_steps: int, n_frames: int) -> None:
    rows = random_rows(seed, n)
    dataset = MDPDataset(*rows[:4], timeouts=rows[4], reward_convention="next_row")
    episodes = reference_steps(*rows)
    assert [len(episode) for episode in dataset] == [len(episode) for episode in episodes]
    steps = [(episode, i) for episode in episodes for i in range(len(episode))]
    if not steps:
        return
    batch = dataset.batch(np.arange(len(steps)), GAMMA, num_steps=num_steps, n_frames=n_frames)
    minibatch = TransitionMiniBatch([t for e in dataset for t in e], n_frames)
    for k, (episode, i) in enumerate(steps):
        step, (reward, discount, _) = episode[i], n_step(episode, i, num_steps)
        last = episode[min(i + num_steps, len(episode)) - 1]["row"]
        own = stack(rows[0], step["start"], step["row"], n_frames)
        assert np.array_equal(batch.obs[k], own) and np.array_equal(minibatch.observations[k], own)
        assert np.array_equal(batch.next_obs[k], stack(rows[0], step["start"], last + 1, n_frames))
        assert np.array_equal(minibatch.next_observations[k], stack(rows[0], step["start"], step["row"] + 1, n_frames))
        assert np.array_equal(batch.action[k], step["action"])
        assert (batch.reward[k].item(), batch.discount[k].item()) == pytest.approx((reward, discount), abs=1e-5)
        assert minibatch.next_rewards[k] == np.float32(step["reward"]) and minibatch.terminals[k] == step["terminal"]


@given(st.integers(0, 10**6), st.lists(st.integers(1, 12), min_size=2, max_size=4), st.sampled_from(CONVENTIONS))
def test_appending_is_joining(seed: int, lengths: list[int], convention: str) -> None:
    rows = random_rows(seed, sum(lengths))
    ends = np.cumsum(lengths)
    rows[4][ends - 1] = ~rows[3][ends - 1]  # parts end with an episode
    whole = MDPDataset(*rows[:4], timeouts=rows[4], reward_convention=convention)
    pieces = [[array[end - length : end] for array in rows] for end, length in zip(ends, lengths, strict=True)]
    grown = MDPDataset(*pieces[0][:4], timeouts=pieces[0][4], reward_convention=convention)
    for piece in pieces[1:]:
        grown.append(*piece)
    for name in ("observations", "actions", "rewards", "terminals", "timeouts"):
        assert np.array_equal(getattr(grown, name), getattr(whole, name)), name
    assert [e.compute_return() for e in grown] == pytest.approx([e.compute_return() for e in whole])


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 3))
def test_a_buffer_and_back_changes_no_step(seed: int, n: int, num_steps: int) -> None:
    rows = random_rows(seed, n)
    dataset = MDPDataset(*rows[:4], timeouts=rows[4], reward_convention="next_row")
    if not dataset.n_steps:
        return
    buffer = ReplayBuffer.from_dataset(dataset, num_steps=num_steps)
    again = MDPDataset.from_buffer(buffer).to_arrays()
    for name, values in dataset.to_arrays().items():
        assert np.array_equal(again[name], values), name
    items = buffer.memory
    steps = [(episode, i) for episode in reference_steps(*rows) for i in range(len(episode))]
    assert [sum(GAMMA**k * s["reward"] for k, s in enumerate(item)) for item in items] == pytest.approx(
        [n_step(episode, i, num_steps)[0] for episode, i in steps]
    )


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_the_same_row_gives_the_same_steps(seed: int, n: int) -> None:
    rows = random_rows(seed, n)
    arrays = MDPDataset.from_arrays(*rows).to_arrays()
    expected = []
    for t in range(n):
        cut = not rows[3][t] and (rows[4][t] or t == n - 1)
        if not cut:  # nobody has told what came of it
            expected.append(t)
    assert np.array_equal(arrays["observations"], rows[0][expected])
    assert np.array_equal(arrays["rewards"], rows[2][expected])
    assert np.array_equal(arrays["terminals"], rows[3][expected])


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_same_row_shows_what_was_given_and_learns_what_from_arrays_learns(seed: int, n: int) -> None:
    rows = random_rows(seed, n)
    dataset = MDPDataset(*rows[:4], timeouts=rows[4], reward_convention="same_row")
    learnt, expected = dataset.to_arrays(), MDPDataset.from_arrays(*rows).to_arrays()
    assert all(np.array_equal(learnt[name], values) for name, values in expected.items())
    cut = rows[4] | ((np.arange(n) == n - 1) & ~rows[3])
    given = dict(zip(("observations", "actions", "rewards", "terminals"), rows, strict=False))
    given |= {"rewards": np.where(cut, 0, rows[2]), "timeouts": cut}
    for name, values in given.items():
        assert np.array_equal(getattr(dataset, name), values), name
        if name != "timeouts":
            assert np.array_equal(np.concatenate([getattr(episode, name) for episode in dataset]), values), name
    minibatch = TransitionMiniBatch([t for e in dataset for t in e]) if dataset.n_steps else None
    if minibatch is not None:
        assert np.array_equal(minibatch.rewards[:, 0], learnt["rewards"].astype(np.float32))


def through_file(name: str, **options: Any) -> Any:
    def again(dataset: MDPDataset, folder: Path) -> MDPDataset:
        dataset.dump(folder / name, **options)
        return MDPDataset.load(folder / name)

    return again


def through_minari(dataset: MDPDataset, folder: Path) -> MDPDataset:
    dataset.dump_minari(folder, "some-v0")
    return MDPDataset.load_minari(folder / "some-v0")


def through_frame(dataset: MDPDataset, folder: Path) -> MDPDataset:
    columns = ["observation_0"], ["action_0"]
    return MDPDataset.from_dataframe(dataset.to_dataframe(), *columns, timeout="timeout")


#: How a dataset may go and come, what that needs, and whether it keeps terminal states.
WAYS = {
    "h5, next_row": (through_file("data.h5"), "h5py", True),
    "h5, same_row": (through_file("data.h5", reward_convention="same_row"), "h5py", False),
    "npz, next_row": (through_file("data.npz"), "numpy", True),
    "npz, same_row": (through_file("data.npz", reward_convention="same_row"), "numpy", False),
    "minari": (through_minari, "h5py", True),
    "frame": (through_frame, "pandas", True),
    "arrays": (lambda dataset, folder: MDPDataset.from_arrays(**dataset.to_arrays()), "numpy", True),
}


def steps_of(dataset: MDPDataset, terminal_states: bool) -> list[list[tuple[Any, ...]]]:
    """Of each episode that has any."""
    return [
        [
            (
                t.observation.item(), t.action.item(), t.next_reward,
                None if t.terminal and not terminal_states else t.next_observation.item(), t.terminal,
            )
            for t in episode
        ]
        for episode in dataset
        if len(episode)
    ]  # fmt: skip


@pytest.mark.representatives(2)
@pytest.mark.usefixtures("no_waiting_for_the_disk")
@pytest.mark.parametrize("way", WAYS)
def test_a_way_out_and_in_again_keeps_every_transition(way: str) -> None:
    again, package, terminal_states = WAYS[way]
    pytest.importorskip(package)

    @given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=8))
    def kept(episodes: list[tuple[int, bool]]) -> None:
        ends = np.cumsum([length + 1 for length, _ in episodes]) - 1
        row = np.arange(ends[-1] + 1.0)
        terminal = np.isin(row, ends[[terminated for _, terminated in episodes]])
        timeouts = np.isin(row, ends) & ~terminal
        dataset = MDPDataset(
            row[:, None], -row[:, None], 100 + row, terminal, timeouts=timeouts, reward_convention="next_row"
        )
        if not dataset.n_steps:
            return
        with tempfile.TemporaryDirectory() as folder:
            found = again(dataset, Path(folder))
        assert steps_of(found, terminal_states) == steps_of(dataset, terminal_states)

    kept()
