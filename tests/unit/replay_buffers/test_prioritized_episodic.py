import json

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


@pytest.mark.slow
def test_uniform_ratio_one_draws_light_episodes_as_often_as_heavy_ones():
    buffer = proportional([1e9, 1.0], uniform_ratio=1.0, wait_priority_after_sampling=False)
    counts = np.bincount([int(numbers(buffer.sample_episodes(1)[0])[0]) for _ in range(1000)])
    assert abs(counts[0] / 1000 - 0.5) < 5 * np.sqrt(0.25 / 1000)


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


def shrunk():
    """A buffer that held 100 episodes and holds 10, on both sides of a multiple of 64, the last three not drawn yet."""
    buffer = buffer_of([10] * 100, capacity=1000, rng=np.random.RandomState(0))
    drawn_numbers(buffer)
    for number in range(100, 196):
        append_episode(buffer, number, 100)
        if number == 192:
            drawn_numbers(buffer)
    assert buffer.n_episodes == 10
    return buffer


def drawn_numbers(buffer):
    episodes, weights = buffer.sample_episodes(4)
    buffer.update_errors([0.1, 0.9, 0.3, 0.4])
    return numbers(episodes), weights.tolist()


def by_file(buffer, restored, folder):
    buffer.save(str(folder / "buffer"))
    restored.load(str(folder / "buffer"))


def by_increments(buffer, restored, folder):
    restored.load_increment(folder, json.loads(json.dumps(buffer.save_increment(folder))))


@pytest.mark.slow
@pytest.mark.parametrize("move", [by_file, by_increments])
@pytest.mark.parametrize("capacity", [1000, 400])
def test_a_buffer_that_held_more_episodes_draws_the_same_ones_after_it_was_loaded(move, capacity, tmp_path):
    """One of a smaller capacity drops episodes when it is loaded, and is then itself saved and loaded."""
    buffer = shrunk()
    if capacity != buffer.capacity:
        full, buffer = buffer, PrioritizedEpisodicReplayBuffer(capacity, rng=np.random.RandomState(0))
        move(full, buffer, tmp_path)
    restored = PrioritizedEpisodicReplayBuffer(capacity, rng=np.random.RandomState(1))
    move(buffer, restored, tmp_path)
    for number in range(196, 206):
        assert drawn_numbers(restored) == drawn_numbers(buffer)
        append_episode(restored, number, 100)
        append_episode(buffer, number, 100)


@pytest.mark.slow
def test_a_save_changes_no_later_draw(tmp_path):
    """The 100 short episodes are gone before the next draw, so that the tree need never hold them."""
    buffers = [buffer_of([10] * 100, capacity=1000, rng=np.random.RandomState(0)) for _ in range(2)]
    buffers[0].save(str(tmp_path / "buffer"))
    for buffer in buffers:
        for number in range(100, 196):
            append_episode(buffer, number, 100)
    first, second = map(drawn_numbers, buffers)
    assert first == second


def test_a_buffer_that_was_saved_without_its_trees_layout_is_loaded():
    buffer, restored = proportional([3.0, 1.0, 2.0]), PrioritizedEpisodicReplayBuffer()
    state = buffer.state_dict()
    del state["header"]["own"]["tree"]
    restored.load_state_dict(state)
    assert priorities(restored) == [3.0, 1.0, 2.0]
