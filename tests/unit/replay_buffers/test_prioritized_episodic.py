import numpy as np
import pytest

from pfrl_like.errors import NonFiniteError
from pfrl_like.replay_buffers import PrioritizedEpisodicReplayBuffer


def append_episode(buffer, number, length):
    """Steps whose observation is (number of the episode, step)."""
    for step in range(length):
        buffer.append([float(number), float(step)], 0, float(step), [float(number), step + 1.0])
    buffer.stop_current_episode()


def buffer_of(lengths, **kwargs):
    buffer = PrioritizedEpisodicReplayBuffer(**kwargs)
    for number, length in enumerate(lengths):
        append_episode(buffer, number, length)
    return buffer


def proportional(errors, **kwargs):
    """A buffer of episodes of two steps whose priorities are the errors."""
    buffer = buffer_of([2] * len(errors), alpha=1.0, eps=0.0, **kwargs)
    buffer.update_priorities(np.arange(len(errors)), errors)
    return buffer


def priorities(buffer):
    return buffer.state_dict()["arrays"]["own/priority"].tolist()


def numbers(episodes):
    return [episode[0]["state"][0] for episode in episodes]


def test_sample_draws_transitions_without_weights():
    buffer = proportional([1e9, 1.0])
    assert sorted(step["state"][0] for (step,) in buffer.sample(4)) == [0, 0, 1, 1]
    batch = buffer.sample_batch(4)
    assert batch.weight is None


def test_capacity_counts_transitions_and_drops_whole_episodes():
    buffer = buffer_of([2, 2], capacity=5, alpha=1.0, eps=0.0)
    buffer.update_priorities([0, 1], [3.0, 4.0])
    append_episode(buffer, 2, 2)
    assert buffer.capacity == 5 and len(buffer) == 4 and buffer.n_episodes == 2
    assert priorities(buffer) == [4.0, 4.0]
    assert sorted(numbers(buffer.sample_episodes(2)[0])) == [1.0, 2.0]


def test_default_priority_func_gives_the_priority_of_a_new_episode_of_its_transitions():
    buffer = buffer_of([2, 3], default_priority_func=lambda episode: sum(step["reward"] for step in episode))
    assert priorities(buffer) == [1.0, 3.0]


def test_without_default_priority_func_a_new_episode_gets_the_largest_priority_so_far():
    buffer = proportional([1.0, 7.0])
    append_episode(buffer, 2, 1)
    assert priorities(buffer) == [1.0, 7.0, 7.0]


def test_an_impossible_default_priority_is_refused_and_the_episode_gets_the_largest_so_far():
    buffer = PrioritizedEpisodicReplayBuffer(default_priority_func=lambda episode: -1.0)
    with pytest.raises(ValueError, match="priority holds -1.0"):
        append_episode(buffer, 0, 2)
    assert priorities(buffer) == [1.0] and numbers(buffer.sample_episodes(1)[0]) == [0.0]


@pytest.mark.parametrize("write_back", ["update_errors", "update_priorities"])
def test_sampling_again_waits_for_the_errors(write_back):
    buffer = buffer_of([1, 1])
    batch = buffer.sample_sequences(1)
    with pytest.raises(RuntimeError, match="wait_priority_after_sampling"):
        buffer.sample_episodes(1)
    if write_back == "update_errors":
        buffer.update_errors([1.0])
    else:
        buffer.update_priorities(batch.index, [1.0])
    buffer.sample_episodes(1)


def test_a_refused_sample_costs_no_draw():
    buffer = buffer_of([1, 1], rng=np.random.RandomState(0))
    buffer.sample_episodes(1)
    before = buffer.state_dict()["rng"]["state"]["pos"]
    with pytest.raises(RuntimeError):
        buffer.sample_episodes(1)
    assert buffer.state_dict()["rng"]["state"]["pos"] == before


def test_return_sample_weights_false_gives_the_episodes_alone():
    buffer = buffer_of([2, 2], return_sample_weights=False, wait_priority_after_sampling=False)
    assert sorted(numbers(buffer.sample_episodes(2))) == [0.0, 1.0]
    batch = buffer.sample_sequences(2)
    assert batch.weight is None and sorted(batch.index.tolist()) == [0, 1]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_error_that_is_not_finite_is_refused_and_is_still_waited_for(bad):
    buffer = buffer_of([1, 1])
    buffer.sample_episodes(1)
    with pytest.raises(NonFiniteError, match="td_error"):
        buffer.update_errors([bad])
    assert priorities(buffer) == [1.0, 1.0]
    buffer.update_errors([0.5])


def test_a_buffer_that_was_saved_without_its_trees_layout_is_loaded():
    buffer, restored = proportional([3.0, 1.0, 2.0]), PrioritizedEpisodicReplayBuffer()
    state = buffer.state_dict()
    del state["header"]["own"]["tree"]
    restored.load_state_dict(state)
    assert priorities(restored) == [3.0, 1.0, 2.0]
