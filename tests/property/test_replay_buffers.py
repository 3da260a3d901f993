"""Columnar replay buffers against the slow reference: the same items for any sequence of steps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_buffer import ReferenceBuffer, ReferenceEpisodicBuffer, feed, reference_target

from pfrl_like.replay_buffers import EpisodicReplayBuffer, ReplayBuffer

N_ENVS = 3
QUICK = settings(max_examples=40)


def nest(i: int) -> dict[str, Any]:
    return {"image": np.full((2, 2), i, np.int16), "pair": (np.float64(i), np.full(2, i % 2 == 0))}


def stack(i: int) -> np.ndarray:
    return np.stack([np.full((16, 16), max(i - back, 0) % 251, np.uint8) for back in (3, 2, 1, 0)])


OBSERVATIONS = {"number": lambda i: i, "vector": lambda i: np.full(3, i, np.float32), "nest": nest, "stack": stack}

#: One step of one environment: how it ends, whether it begins where the last ended, whether its optional parts come.
STEP = st.tuples(
    st.integers(0, N_ENVS - 1),
    st.sampled_from(["on", "on", "on", "on", "terminal", "truncated", "both"]),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)
STEPS = st.lists(STEP, max_size=40)
CAPACITY = st.sampled_from([None, 1, 2, 3, 5, 8])


def transitions(steps: list[Any], kind: str) -> list[tuple[dict[str, Any], bool]]:
    """The arguments of `append` for every step, and whether the episode is cut off after it."""
    observation, obs, made = OBSERVATIONS[kind], {}, []
    for i, (env_id, end, chained, optional) in enumerate(steps):
        here = obs[env_id] if chained and env_id in obs else 100 * i + 7
        obs[env_id] = here + 1
        made.append(
            (
                dict(
                    state=observation(here),
                    action=np.int64(i % 5),
                    reward=0.5 * i,
                    next_state=observation(here + 1),
                    next_action=i % 3 if optional else None,
                    is_state_terminal=end in ("terminal", "both"),
                    env_id=env_id,
                    note=np.full(2, i, np.float32) if optional else None,
                ),
                end in ("truncated", "both"),
            )
        )
    return made


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if a is None or b is None:
        return a is b
    return np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b)


def pair(episodic: bool, capacity: int | None, num_steps: int) -> tuple[Any, Any]:
    if episodic:
        return EpisodicReplayBuffer(capacity), ReferenceEpisodicBuffer(capacity)
    return ReplayBuffer(capacity, num_steps), ReferenceBuffer(capacity, num_steps)


@QUICK
@given(STEPS, CAPACITY, st.sampled_from([1, 2, 3, 5]), st.booleans(), st.sampled_from(list(OBSERVATIONS)))
def test_items_are_those_of_the_reference(steps, capacity, num_steps, episodic, kind):
    buffer, reference = pair(episodic, capacity, num_steps)
    for step in transitions(steps, kind):
        feed(buffer, [step])
        feed(reference, [step])
        assert len(buffer) == len(reference)
        assert equal(list(buffer.memory), reference.items)
    if episodic:
        assert equal(list(buffer.episodic_memory), reference.episodes)
        assert buffer.n_episodes == len(reference.episodes)


@QUICK
@given(STEPS, CAPACITY, st.sampled_from([1, 2, 3, 5]), st.booleans(), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_batches_are_the_targets_of_the_reference(steps, capacity, num_steps, episodic, gamma):
    buffer, reference = pair(episodic, capacity, num_steps)
    feed(buffer, transitions(steps, "vector"))
    feed(reference, transitions(steps, "vector"))
    if not len(reference):
        return
    batch = buffer.sample_batch(len(buffer), gamma)
    oldest = batch.index.min()
    for i, index in enumerate(batch.index):
        obs, action, reward, next_obs, discount = reference_target(reference.items[index - oldest], gamma)
        np.testing.assert_array_equal(batch.obs[i], obs)
        np.testing.assert_array_equal(batch.next_obs[i], next_obs)
        assert batch.action[i] == action
        assert batch.reward[i] == pytest.approx(reward, rel=1e-6)
        assert batch.discount[i] == pytest.approx(discount, rel=1e-6)
    assert sorted(batch.index - oldest) == list(range(len(reference)))


@QUICK
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans()), min_size=3, max_size=3), max_size=12),
    CAPACITY,
    st.sampled_from([1, 3]),
    st.booleans(),
    st.sampled_from(list(OBSERVATIONS)),
)
def test_a_batch_of_environments_is_so_many_single_ones(rounds, capacity, num_steps, episodic, kind):
    together, one_by_one = pair(episodic, capacity, num_steps)[0], pair(episodic, capacity, num_steps)[0]
    observation, obs = OBSERVATIONS[kind], [0, 1000, 2000]
    for i, ends in enumerate(rounds):
        here = [observation(o) for o in obs]
        after = [observation(o + 1) for o in obs]
        action, reward = [i, i + 1, i + 2], [0.5 * i, 1.0, 2.0]
        terminal, cut = [end == 1 for end, _, _ in ends], [end == 2 for end, _, _ in ends]
        note = [np.full(2, i) if optional else None for _, _, optional in ends]
        together.append_batch(here, action, reward, after, terminal, cut, note=note)
        for k in range(3):
            one = slice(k, k + 1)
            one_by_one.append_batch(
                here[one], action[one], reward[one], after[one], terminal[one], cut[one], [k], note=note[one]
            )
        obs = [o + 1 if chained else o + 50 for o, (_, chained, _) in zip(obs, ends, strict=True)]
        assert equal(list(together.memory), list(one_by_one.memory))


@QUICK
@given(STEPS, STEPS, CAPACITY, st.sampled_from([1, 3]), st.booleans(), st.sampled_from(list(OBSERVATIONS)))
def test_a_loaded_buffer_goes_on_as_the_saved_one(tmp_path_factory, steps, later, capacity, num_steps, episodic, kind):
    chained = [(env_id, end, True, optional) for env_id, end, _, optional in later]
    made = transitions(steps + chained, kind)
    buffer, loaded = pair(episodic, capacity, num_steps)[0], pair(episodic, capacity, num_steps)[0]
    feed(buffer, made[: len(steps)])
    path = str(tmp_path_factory.mktemp("buffer") / "buffer")
    buffer.save(path)
    loaded.load(path)
    assert equal(list(loaded.memory), list(buffer.memory))
    feed(buffer, made[len(steps) :])
    feed(loaded, made[len(steps) :])
    assert equal(list(loaded.memory), list(buffer.memory))


@QUICK
@given(STEPS, st.sampled_from([1, 3]), st.booleans(), st.integers(0, 2**31))
def test_sample_and_sample_batch_draw_the_same(steps, num_steps, episodic, seed):
    buffer = pair(episodic, None, num_steps)[0]
    feed(buffer, transitions(steps, "vector"))
    n = (len(buffer) + 1) // 2
    np.random.seed(seed)
    items = buffer.sample(n)
    after_sample = np.random.random()
    np.random.seed(seed)
    batch = buffer.sample_batch(n) if n else None
    if batch is not None:
        assert np.random.random() == after_sample
        assert [item[0]["state"][0] for item in items] == batch.obs[:, 0].tolist()


@QUICK
@given(STEPS, CAPACITY, st.sampled_from([None, 1, 2, 4]), st.integers(0, 2**31))
def test_sequences_are_the_sampled_episodes_packed_time_first(steps, capacity, max_len, seed):
    buffer = EpisodicReplayBuffer(capacity)
    feed(buffer, transitions(steps, "vector"))
    n = buffer.n_episodes
    if not n:
        return
    np.random.seed(seed)
    episodes = sorted(buffer.sample_episodes(n, max_len), key=len, reverse=True)
    np.random.seed(seed)
    batch = buffer.sample_sequences(n, max_len, gamma=0.9)
    # as torch.nn.utils.rnn.pack_sequence puts them
    packed = [episode[t] for t in range(len(episodes[0])) for episode in episodes if t < len(episode)]
    assert batch.lengths.tolist() == [len(episode) for episode in episodes]
    assert batch.obs[:, 0].tolist() == [step["state"][0] for step in packed]
    assert batch.reward.tolist() == [step["reward"] for step in packed]
    expected = [0.0 if step["is_state_terminal"] else np.float32(0.9) for step in packed]
    assert batch.discount.tolist() == expected


def release_everything(buffer: Any) -> None:
    """Drop all items, and check that no row is in use then."""
    for env_id in range(N_ENVS):
        buffer.stop_current_episode(env_id)
    columns, rows = buffer._columns, buffer._rows(np.arange(buffer._first, buffer._next))
    for row in rows.tolist():
        columns.release(row)
    groups = [columns.steps, columns.obs_rows, *(extra.rows for extra in columns.extras.values())]
    if columns.obs is not None:
        groups += [leaf.frames for leaf in columns.obs.leaves if hasattr(leaf, "frames")]
    for group in groups:
        assert sorted(group.free) == list(range(1, group.size))


@QUICK
@given(STEPS, CAPACITY, st.sampled_from([1, 3]), st.booleans(), st.sampled_from(list(OBSERVATIONS)))
def test_every_row_is_free_again_when_all_items_are_gone(steps, capacity, num_steps, episodic, kind):
    buffer = pair(episodic, capacity, num_steps)[0]
    feed(buffer, transitions(steps, kind))
    release_everything(buffer)


def test_the_file_of_an_empty_buffer_loads(tmp_path: Path) -> None:
    for make in (ReplayBuffer, EpisodicReplayBuffer):
        make().save(str(tmp_path / "buffer"))
        buffer = make()
        buffer.load(str(tmp_path / "buffer"))
        assert len(buffer) == 0
