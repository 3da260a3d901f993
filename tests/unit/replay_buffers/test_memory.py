"""`memory` and `episodic_memory`: read, appended to, sampled, and replaced by a container or by nothing."""

import collections
import pickle

import numpy as np
import pytest
from buffer_parts import filled, rewards, step

from pfrl_like import replay_buffers as buffers
from pfrl_like.collections import PrioritizedBuffer, RandomAccessQueue
from pfrl_like.dataset import MDPDataset
from pfrl_like.errors import CheckpointError

# Views


def test_memory_is_looked_at_by_place():
    memory = filled(5, capacity=3).memory
    assert (len(memory), memory.maxlen) == (3, 3)
    assert rewards(memory) == rewards(memory[:]) == [[2.0], [3.0], [4.0]]
    assert memory[-1][0]["reward"] == memory[np.int64(2)][0]["reward"] == 4.0
    assert rewards(memory[::-2]) == [[4.0], [2.0]]


def test_memory_is_read_to_its_end_in_pieces():
    assert [item[0]["reward"] for item in filled(600).memory] == list(range(600))


def test_items_are_appended():
    buffer = buffers.ReplayBuffer(3)
    for i in range(4):
        buffer.memory.append([step(i)])
    buffer.memory.extend([[step(9)]])
    assert rewards(buffer.memory) == [[2.0], [3.0], [9.0]]
    assert sorted(buffer.sample_batch(3).reward.tolist()) == [2, 3, 9]


def test_appended_items_that_follow_each_other_are_of_one_episode_and_others_are_not():
    buffer = buffers.ReplayBuffer()
    buffer.memory.extend([[step(0)], [step(1)], [step(7)], [step(8, terminal=True)], [step(9)]])
    batch = buffer.sample_batch(5, next_actions=True)
    following = dict(zip(batch.reward.tolist(), batch.next_action.tolist(), strict=True))
    assert following == {0.0: 1, 1.0: -1, 7.0: 2, 8.0: -1, 9.0: -1}
    assert buffer._columns.obs_rows.size - 1 - len(buffer._columns.obs_rows.free) == 8


def test_an_item_of_one_step_of_an_n_step_buffer_is_an_episode():
    buffer = buffers.ReplayBuffer(num_steps=3)
    buffer.memory.extend([[step(0)], [step(1)]])
    assert rewards(buffer.memory) == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("make", "item", "message"),
    [
        (buffers.ReplayBuffer, [step(0), step(1)], "item: got 2 transitions, expected a list of one transition"),
        (buffers.ReplayBuffer, step(0), "item: got dict, expected a list of one transition"),
        (buffers.ReplayBuffer, [], "item: got 0 transitions"),
        (buffers.ReplayBuffer, [{"state": 1, "action": 0}], "reward"),
        (buffers.EpisodicReplayBuffer, [step(0)], "EpisodicReplayBuffer stores whole episodes"),
        (
            lambda: buffers.HindsightReplayBuffer(9, lambda *_: 0),
            [step(0)],
            "HindsightReplayBuffer stores whole episodes",
        ),
    ],
)
def test_what_is_no_item_is_refused(make, item, message):
    buffer = make()
    with pytest.raises(TypeError, match=message):
        buffer.memory.append(item)
    assert len(buffer) == 0


def test_memory_draws_as_the_buffer_does():
    buffer = filled(50, rng=np.random.default_rng(0))
    drawn = rewards(buffer.memory.sample(10))
    buffer._rng = np.random.default_rng(0)
    assert drawn == rewards(buffer.sample(10)) and len({one for (one,) in drawn}) == 10
    with pytest.raises(ValueError, match="n"):
        buffer.memory.sample(51)


def test_a_prioritised_memory_has_the_methods_of_pfrls():
    buffer = buffers.PrioritizedReplayBuffer(100, rng=np.random.default_rng(0))
    for i in range(4):
        buffer.memory.append([step(i)], priority=1.0 + i)
    buffer.memory.append([step(4)])
    assert (len(buffer.memory), buffer.memory.max_priority) == (5, 1.0)
    assert rewards(buffer.memory.data) == [[0.0], [1.0], [2.0], [3.0], [4.0]]
    items, probabilities, smallest = buffer.memory.sample(5)
    priority = [[1.0, 2.0, 3.0, 4.0, 1.0][int(item[0]["reward"])] for item in items]
    np.testing.assert_allclose(probabilities, np.array(priority) / 11)
    assert smallest == pytest.approx(1 / 11)
    buffer.memory.set_last_priority([8.0 if item[0]["reward"] == 2 else 1.0 for item in items])
    assert buffer._priorities.to_array().tolist() == [1.0, 1.0, 8.0, 1.0, 1.0]
    with pytest.raises(RuntimeError, match="nothing was sampled"):
        buffer.memory.set_last_priority([1.0] * 5)


def test_episodes_are_appended_and_drawn():
    buffer = buffers.EpisodicReplayBuffer(5)
    for start in (0, 10, 20):
        buffer.episodic_memory.append([step(start), step(start + 1, terminal=start == 10)])
    memory = buffer.episodic_memory
    assert rewards(memory) == [[10.0, 11.0], [20.0, 21.0]] and len(memory) == 2
    assert sorted(rewards(memory.sample(2))) == rewards(memory[:])
    assert memory[-1][1]["reward"] == 21.0 and rewards(buffer.memory) == [[10.0], [11.0], [20.0], [21.0]]
    for episode in ([], [step(0, terminal=True), step(1)]):
        with pytest.raises(ValueError, match="episode: got"):
            memory.append(episode)
    assert buffer.n_episodes == 2


def test_episodes_of_a_prioritised_memory_are_drawn_by_priority():
    buffer = buffers.PrioritizedEpisodicReplayBuffer(rng=np.random.default_rng(0))
    for i in range(3):
        buffer.episodic_memory.append([step(i)], priority=1.0 + i)
    episodes, probabilities, _ = buffer.episodic_memory.sample(3)
    np.testing.assert_allclose(probabilities, [(1 + episode[0]["reward"]) / 6 for episode in episodes])
    buffer.episodic_memory.set_last_priority([1.0] * 3)
    assert rewards(buffer.episodic_memory.data) == [[0.0], [1.0], [2.0]]


def test_items_of_a_persistent_buffer_are_appended_to_its_directory(tmp_path):
    with buffers.PersistentReplayBuffer(tmp_path, 10) as buffer:
        buffer.memory.extend([[step(0)], [step(5)]])
    with buffers.PersistentReplayBuffer(tmp_path, 10) as buffer:
        assert rewards(buffer.memory) == [[0.0], [5.0]]


def test_memory_set_to_itself_stays():
    buffer = filled(3)
    buffer.memory = buffer.memory
    buffer.append(**step(3))
    assert rewards(buffer.memory) == [[0.0], [1.0], [2.0], [3.0]]


# Nothing


@pytest.mark.parametrize("kind", [buffers.ReplayBuffer, buffers.PrioritizedReplayBuffer, buffers.EpisodicReplayBuffer])
def test_none_frees_what_is_stored(kind, tmp_path):
    buffer = filled(2000, kind=kind)
    buffer.stop_current_episode()
    buffer.save(str(tmp_path / "buffer"))
    buffer.memory = None
    assert buffer.memory is None and len(buffer) == 0 and buffer.nbytes < 30_000
    for _ in range(2):
        with pytest.raises(TypeError, match="memory is None, so the buffer cannot store steps"):
            buffer.append(**step(0, terminal=True))
    for draw in (buffer.sample, buffer.sample_batch):
        with pytest.raises(ValueError, match="no items are stored"):
            draw(1)
    buffer.load(str(tmp_path / "buffer"))
    assert len(buffer) == 2000 and buffer.memory[-1][0]["reward"] == 1999.0


def test_an_episodic_buffer_is_freed_by_either_memory():
    buffer = buffers.EpisodicReplayBuffer()
    buffer.episodic_memory.append([step(0)])
    buffer.episodic_memory = None
    assert (buffer.memory, buffer.episodic_memory, len(buffer), buffer.n_episodes) == (None, None, 0, 0)


def test_a_freed_buffer_is_saved_empty(tmp_path):
    buffer, loaded = filled(3), filled(5)
    buffer.memory = None
    loaded.load_increment(tmp_path, buffer.save_increment(tmp_path))
    assert len(loaded) == 0


# A container of the user's


@pytest.mark.parametrize("make", [list, collections.deque, RandomAccessQueue])
def test_a_container_is_filled_as_pfrl_fills_it(make):
    buffer, container = filled(3, capacity=4), make()
    buffer.memory = container
    assert buffer.memory is container and len(buffer) == 0
    for i in range(6):
        buffer.append(**step(i, mask="a"))
    assert rewards(container) == [[2.0], [3.0], [4.0], [5.0]] and len(buffer) == 4
    assert container[0][0] == {**step(2, mask="a"), "next_action": None} | {
        name: container[0][0][name] for name in ("state", "next_state")
    }
    container[0][0]["reward"] = 20.0
    container[1][0]["bonus"] = 1.0
    assert sorted(rewards(buffer.sample(4))) == [[3.0], [4.0], [5.0], [20.0]]
    assert sorted(buffer.sample_batch(4, 0.9).reward.tolist()) == [3, 4, 5, 20]


def test_items_of_several_steps_share_their_dicts_in_a_container():
    buffer = buffers.ReplayBuffer(num_steps=3)
    buffer.memory = container = []
    for i in range(5):
        buffer.append(**step(i, terminal=i == 3), env_id="a")
    buffer.append(**step(9), env_id="b")
    buffer.stop_current_episode("b")
    assert rewards(container) == [[0, 1, 2], [1, 2, 3], [2, 3], [3], [9]]
    container[0][2]["reward"] = 7.0
    assert rewards(container)[1:3] == [[1, 7, 3], [7, 3]]


def test_steps_of_several_environments_go_into_a_container():
    buffer = buffers.ReplayBuffer()
    buffer.memory = container = []
    obs = {"a": np.arange(2.0), "b": (np.ones((2, 3)),)}
    buffer.append_batch(obs, [0, 1], [5.0, 6.0], obs, [False, True], [False, False], note=["x", "y"])
    assert rewards(container) == [[5.0], [6.0]]
    assert [(item[0]["is_state_terminal"], item[0]["note"]) for item in container] == [(False, "x"), (True, "y")]
    assert container[1][0]["state"]["a"] == 1.0 and container[1][0]["state"]["b"][0].shape == (3,)


def test_the_memory_of_another_buffer_is_shared():
    buffer, other = filled(2), buffers.ReplayBuffer()
    other.memory = buffer.memory
    other.append(**step(5))
    assert rewards(buffer.memory) == rewards(other.memory) == [[0.0], [1.0], [5.0]]


@pytest.mark.parametrize("how", ["save", "save_increment", "state_dict"])
def test_a_container_is_saved_and_filled_again(how, tmp_path):
    def made():
        buffer = buffers.ReplayBuffer(4, rng=np.random.default_rng(3))
        buffer.memory = collections.deque(maxlen=4)
        return buffer

    buffer, loaded = made(), made()
    for i in range(6):
        buffer.append(**step(i))
    buffer.memory[0][0]["reward"] = 20.0
    if how == "save":
        buffer.save(str(tmp_path / "buffer"))
        loaded.load(str(tmp_path / "buffer"))
    elif how == "save_increment":
        reference = buffer.save_increment(tmp_path, buffer.save_increment(tmp_path))
        buffers.prune(tmp_path, [reference])
        loaded.load_increment(tmp_path, reference)
    else:
        loaded.load_state_dict(buffer.state_dict())
    assert type(loaded.memory) is collections.deque and type(loaded.memory[0][0]) is dict
    assert rewards(loaded.memory) == [[20.0], [3.0], [4.0], [5.0]]
    assert rewards(loaded.sample(3)) == rewards(buffer.sample(3))
    for each in (buffer, loaded):
        each.append(**step(6))
        each.memory[-1][0]["state"][:] = 8
    assert rewards(loaded.memory) == rewards(buffer.memory) and loaded.memory[-1][0]["state"][0] == 8


def test_a_container_takes_what_a_buffer_of_columns_has_saved(tmp_path):
    buffer = buffers.ReplayBuffer()
    buffer.memory = container = []
    buffer.load_increment(tmp_path, filled(3).save_increment(tmp_path))
    assert rewards(container) == [[0.0], [1.0], [2.0]] and buffer.memory is container


def test_a_file_that_does_not_fit_leaves_a_container_as_it_was(tmp_path):
    (tmp_path / "pickle").write_bytes(pickle.dumps([1]))
    buffers.EpisodicReplayBuffer().save(str(tmp_path / "other"))
    buffer = buffers.ReplayBuffer()
    buffer.memory = container = [[step(0)]]
    for name in ("pickle", "other"):
        with pytest.raises(CheckpointError):
            buffer.load(str(tmp_path / name), allow_pickle=True)
        assert buffer.memory is container and rewards(container) == [[0.0]]


def test_a_dataset_is_made_of_a_container():
    buffer = buffers.ReplayBuffer()
    buffer.memory = [[step(0)], [step(1, terminal=True)]]
    assert MDPDataset.from_buffer(buffer).observations[:, 0].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "memory", "message"),
    [
        (buffers.ReplayBuffer, (), "memory: got tuple, expected None, or a container with append"),
        (buffers.ReplayBuffer, 7, "memory: got int, expected None, or a container"),
        (buffers.PrioritizedReplayBuffer, PrioritizedBuffer(), "memory: got PrioritizedBuffer, expected None"),
        (buffers.EpisodicReplayBuffer, [], "memory: got list, expected None"),
    ],
)
def test_what_cannot_be_filled_is_refused_and_the_content_stays(make, memory, message):
    buffer = make()
    buffer.append(**step(0, terminal=True))
    with pytest.raises(TypeError, match=message):
        buffer.memory = memory
    assert len(buffer) == 1 and len(buffer.memory) == 1


def test_a_persistent_buffer_keeps_its_memory(tmp_path):
    with buffers.PersistentReplayBuffer(tmp_path, 10) as buffer:
        buffer.append(**step(0))
        for memory in (None, []):
            with pytest.raises(TypeError, match="the content of PersistentReplayBuffer is in its directory"):
                buffer.memory = memory
        assert len(buffer) == 1


def test_what_a_container_cannot_tell_is_refused():
    buffer = buffers.ReplayBuffer(num_steps=2)
    buffer.memory = []
    for i in range(3):
        buffer.append(**step(i))
    for options in ({"continuation": 2}, {"n_frames": 2}):
        with pytest.raises(TypeError, match="memory is list, which supports neither"):
            buffer.sample_batch(1, **options)
    with pytest.raises(TypeError, match="memory: list contains items of up to 2 steps, which cannot be saved"):
        buffer.state_dict()


@pytest.mark.parametrize("buffer_class", [buffers.ReplayBuffer, buffers.PrioritizedReplayBuffer])
def test_newest_transitions_of_running_episodes_are_those_of_pfrl(buffer_class):
    buffer, seen = buffer_class(4, num_steps=3), []
    for i, (env_id, ended) in enumerate([(0, 0), (0, 0), (1, 0), (0, 0), (0, 0), (1, 1), (0, 1), (1, 0)]):
        buffer.append(np.float32([i]), 0, float(i), np.float32([i + 1]), is_state_terminal=bool(ended), env_id=env_id)
        seen.append([[step["reward"] for step in buffer.last_n_transitions[key]] for key in (0, 1)])
    assert seen == [
        [[0], []], [[0, 1], []], [[0, 1], [2]], [[0, 1, 3], [2]], [[1, 3, 4], [2]], [[1, 3, 4], []], [[], []], [[], [7]]
    ]  # fmt: skip
    buffer.stop_current_episode(env_id=1)
    assert buffer.last_n_transitions[1] == []
    with pytest.raises(TypeError, match="this list is read-only"):
        buffer.last_n_transitions[0].append({})


def test_a_subclass_may_have_newest_transitions_of_its_own():
    buffer = buffers.ReplayBuffer(4)
    buffer.last_n_transitions = {0: []}
    buffer.append(np.float32([0]), 0, 0.0, np.float32([1]))
    assert buffer.last_n_transitions == {0: []}
