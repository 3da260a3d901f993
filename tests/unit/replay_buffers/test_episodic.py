from pathlib import Path

import numpy as np
import pytest
import torch

from pfrl_like.errors import CheckpointError
from pfrl_like.replay_buffer import AbstractEpisodicReplayBuffer
from pfrl_like.replay_buffers import EpisodicReplayBuffer

DATA = Path(__file__).parents[2] / "data"


def append(buffer, i, terminal=False, env_id=0, **extra):
    buffer.append(
        np.full(2, i, np.float32), i % 2, float(i), np.full(2, i + 1, np.float32), None, terminal, env_id, **extra
    )


def filled(lengths, capacity=None, **kwargs):
    """Episodes of these lengths; the reward of step t of episode e is 100 * e + t."""
    buffer = EpisodicReplayBuffer(capacity, **kwargs)
    for episode, length in enumerate(lengths):
        for t in range(length):
            append(buffer, 100 * episode + t, terminal=t == length - 1)
    return buffer


def rewards(episodes):
    return [[step["reward"] for step in episode] for episode in episodes]


def test_an_episode_can_be_sampled_once_it_has_ended():
    buffer = EpisodicReplayBuffer()
    append(buffer, 0)
    append(buffer, 1)
    assert (len(buffer), buffer.n_episodes) == (0, 0)
    buffer.stop_current_episode()
    assert (len(buffer), buffer.n_episodes) == (2, 1)
    assert isinstance(buffer, AbstractEpisodicReplayBuffer)


def test_whole_episodes_leave_the_oldest_first():
    buffer = filled([3, 2, 2], capacity=5)
    assert rewards(buffer.episodic_memory) == [[100.0, 101.0], [200.0, 201.0]]
    assert len(buffer) == 4


@pytest.mark.parametrize(
    "rng", [None, np.random.default_rng(0), np.random.RandomState(0)], ids=["global", "new", "old"]
)
def test_episodes_may_be_drawn_in_proportion_to_their_length(rng):
    np.random.seed(0)
    buffer = filled([1, 3, 6], by_length=True, rng=rng)
    first = [int(buffer.sample_episodes(1)[0][0]["reward"]) // 100 for _ in range(1_200)]
    # Standard deviations of the shares: at most sqrt(0.24 / 1200) = 0.014.
    np.testing.assert_allclose(np.bincount(first) / 1_200, [0.1, 0.3, 0.6], atol=0.07)
    drawn = [int(episode[0]["reward"]) // 100 for episode in buffer.sample_episodes(3)]
    assert sorted(drawn) == [0, 1, 2]
    assert buffer.sample_sequences(3).lengths.tolist() == [6, 3, 1]


def test_an_episode_longer_than_the_capacity_is_not_kept():
    buffer = filled([2, 6], capacity=5)
    assert (len(buffer), buffer.n_episodes) == (0, 0)


def test_running_episodes_of_other_environments_stay():
    buffer = EpisodicReplayBuffer(capacity=2)
    append(buffer, 50, env_id="slow")
    for i in range(10):
        append(buffer, i, terminal=i % 2 == 1)
    append(buffer, 51, terminal=True, env_id="slow")
    assert rewards(buffer.episodic_memory) == [[50.0, 51.0]]


def test_sampled_episodes_are_distinct_and_whole():
    episodes = filled([3, 1, 2]).sample_episodes(3)
    assert sorted(rewards(episodes)) == [[0.0, 1.0, 2.0], [100.0], [200.0, 201.0]]


def test_long_episodes_are_cut_at_random():
    buffer = filled([5])
    parts = {tuple(rewards(buffer.sample_episodes(1, max_len=3))[0]) for _ in range(100)}
    assert parts == {(0.0, 1.0, 2.0), (1.0, 2.0, 3.0), (2.0, 3.0, 4.0)}


def test_a_batch_of_sequences_is_packed_time_first_the_longest_first():
    batch = filled([1, 3, 2]).sample_sequences(3, gamma=0.5)
    assert batch.lengths.tolist() == [3, 2, 1]
    assert batch.reward.tolist() == [100.0, 200.0, 0.0, 101.0, 201.0, 102.0]
    assert batch.index.tolist() == [1, 2, 0]
    assert batch.discount.tolist() == [0.5, 0.5, 0.0, 0.5, 0.0, 0.0]
    packed = torch.nn.utils.rnn.PackedSequence(batch.obs, torch.tensor([3, 2, 1]))
    padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(packed)
    assert padded[:, 1, 0].tolist() == [200.0, 201.0, 0.0]
    assert lengths.tolist() == [3, 2, 1]


def test_a_sequence_begins_with_the_recurrent_state_of_its_first_step():
    buffer = EpisodicReplayBuffer()
    for t in range(4):
        state = (np.full((1, 2), t, np.float32), np.full((1, 2), -t, np.float32))
        append(buffer, t, terminal=t == 3, recurrent_state=state, next_recurrent_state=state)
    for _ in range(20):
        batch = buffer.sample_sequences(1, max_len=2)
        begin = batch.reward[0]
        hidden, cell = batch.recurrent_state
        assert hidden.tolist() == [[[begin, begin]]]
        assert cell.tolist() == [[[-begin, -begin]]]
        assert batch.next_recurrent_state[0].shape == (1, 1, 2)


def test_sequences_begin_only_where_a_state_is_held():
    buffer = EpisodicReplayBuffer()
    for t in range(10):
        state = np.full((1, 2), t, np.float32) if t % 4 == 0 else None
        append(buffer, t, terminal=t == 9, recurrent_state=state, next_recurrent_state=state)
    begins = {buffer.sample_sequences(1, max_len=4).reward[0].item() for _ in range(100)}
    assert begins == {0.0, 4.0, 8.0}
    assert {rewards(buffer.sample_episodes(1, 4))[0][0] for _ in range(100)} == begins


def test_further_columns_come_for_every_row():
    buffer = EpisodicReplayBuffer()
    for t in range(3):
        append(buffer, t, terminal=t == 2, action_mask=np.array([t == 0, True]))
    assert buffer.sample_sequences(1).action_mask[:, 0].tolist() == [True, False, False]


def test_transitions_of_finished_episodes_can_be_sampled_too():
    buffer = filled([2, 2])
    append(buffer, 900)
    assert sorted(buffer.sample_batch(4).reward.tolist()) == [0.0, 1.0, 100.0, 101.0]
    with pytest.raises(ValueError, match="expected 0 to 4"):
        buffer.sample(5)


@pytest.mark.parametrize("method", ["sample_episodes", "sample_sequences"])
@pytest.mark.parametrize(
    ("arguments", "message"), [((3,), "n_episodes: got 3, expected 0 to 2"), ((1, 0), "max_len: got 0")]
)
def test_impossible_draws_are_refused(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(filled([1, 1]), method)(*arguments)


def test_its_own_source_of_randomness_decides():
    draws = [filled([5] * 20, rng=np.random.default_rng(3)).sample_sequences(4, 2).reward.tolist() for _ in range(2)]
    assert draws[0] == draws[1]


def test_files_keep_episodes(tmp_path):
    path = str(tmp_path / "buffer")
    saved, loaded = filled([3, 2, 2], capacity=5), EpisodicReplayBuffer(5)
    saved.save(path)
    loaded.load(path)
    assert rewards(loaded.episodic_memory) == rewards(saved.episodic_memory)
    assert loaded.sample_sequences(2).index.tolist() in ([1, 2], [2, 1])


@pytest.mark.parametrize("lengths", [[3, 2], [7, 0], [9, -2]])
def test_lengths_that_do_not_fit_are_refused_and_the_content_stays(lengths):
    state = filled([3, 2, 2]).state_dict()
    state["arrays"]["episode_lengths"] = np.array(lengths)
    buffer = filled([1])
    with pytest.raises(ValueError, match="episodes"):
        buffer.load_state_dict(state)
    assert rewards(buffer.episodic_memory) == [[0.0]]


def test_a_number_out_of_range_is_refused_and_the_content_stays():
    state = filled([3, 2]).state_dict()
    state["header"]["first_episode"] = 10**30
    buffer = filled([1])
    with pytest.raises(ValueError, match="its first_episode is 10+, expected"):
        buffer.load_state_dict(state)
    assert rewards(buffer.episodic_memory) == [[0.0]]


def test_pfrls_file_loads_with_allow_pickle():
    buffer = filled([1])
    with pytest.raises(CheckpointError, match="allow_pickle"):
        buffer.load(str(DATA / "pfrl_0_4_episodic_buffer.pkl"))
    buffer.load(str(DATA / "pfrl_0_4_episodic_buffer.pkl"), allow_pickle=True)
    assert rewards(buffer.episodic_memory) == [[6.0, 7.0]]
