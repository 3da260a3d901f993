import numpy as np
import pytest
from buffer_parts import append, rewards

from pfrl_like.replay_buffers import EpisodicReplayBuffer


def filled(lengths, capacity=None, **kwargs):
    """Episodes of these lengths; the reward of step t of episode e is 100 * e + t."""
    buffer = EpisodicReplayBuffer(capacity, **kwargs)
    for episode, length in enumerate(lengths):
        for t in range(length):
            append(buffer, 100 * episode + t, terminal=t == length - 1)
    return buffer


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


@pytest.mark.parametrize("method", ["sample_episodes", "sample_sequences"])
@pytest.mark.parametrize(
    ("arguments", "message"), [((3,), "n_episodes: got 3, expected 0 to 2"), ((1, 0), "max_len: got 0")]
)
def test_impossible_draws_are_refused(method, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(filled([1, 1]), method)(*arguments)


@pytest.mark.parametrize(
    "change",
    [{"episode_lengths": np.array(lengths)} for lengths in ([3, 2], [7, 0], [9, -2])] + [{"first_episode": 10**30}],
)
def test_numbers_that_do_not_fit_are_refused_and_the_content_stays(change):
    state = filled([3, 2, 2]).state_dict()
    state["header" if "first_episode" in change else "arrays"].update(change)
    buffer = filled([1])
    with pytest.raises(ValueError, match="episode|saved first_episode is 10+, expected"):
        buffer.load_state_dict(state)
    assert rewards(buffer.episodic_memory) == [[0.0]]
