"""What buffers hand out: dicts and lists in PFRL's form, through which what is stored can be changed."""

import copy
import gc
import pickle

import numpy as np
import pytest

from pfrl_like.replay_buffer import batch_experiences
from pfrl_like.replay_buffers import (
    EpisodicReplayBuffer,
    HindsightReplayBuffer,
    PersistentEpisodicReplayBuffer,
    PrioritizedEpisodicReplayBuffer,
    PrioritizedReplayBuffer,
    ReplayBuffer,
)
from pfrl_like.utils.batch_states import batch_states


def append(buffer, i, terminal=False, **extra):
    buffer.append(np.full(2, i, np.float32), i % 3, float(i), np.full(2, i + 1, np.float32), None, terminal, **extra)


def filled(n, *args, kind=ReplayBuffer, **kwargs):
    buffer = kind(*args, **kwargs)
    for i in range(n):
        append(buffer, i)
    return buffer


def drawn_rewards(buffer):
    return sorted(buffer.sample_batch(len(buffer)).reward.tolist())


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplayBuffer])
def test_a_changed_value_is_what_is_sampled(kind):
    buffer = filled(4, kind=kind)
    buffer.memory[-1][0]["action"] = 7
    (buffer.memory if kind is ReplayBuffer else buffer.memory.data)[0][0]["reward"] -= 0.5
    buffer.memory[1][0].update(reward=10.0, is_state_terminal=True)
    buffer.memory[2][0]["reward"] = np.float32(20.0)
    assert drawn_rewards(buffer) == [-0.5, 3.0, 10.0, 20.0]
    batch = buffer.sample_batch(4)
    assert sorted(batch.action.tolist()) == [0, 1, 2, 7] and batch.discount.min() == 0


def test_dicts_can_be_merged_in_place():
    buffer = filled(2)
    step = buffer.memory[0][0]
    step |= {"reward": 5.0, "action": 2}
    assert step["reward"] == 5.0 and buffer.memory[0][0]["action"] == 2


def test_dicts_that_sample_handed_out_change_what_is_sampled_later():
    buffer = filled(5)
    for item in buffer.sample(5):
        item[0]["reward"] = float(np.clip(item[0]["reward"], 1, 3))
    assert drawn_rewards(buffer) == [1.0, 1.0, 2.0, 3.0, 3.0]


def test_a_change_counts_in_every_item_that_shares_the_step():
    buffer = filled(4, num_steps=3)
    buffer.memory[0][2]["reward"] = 50.0
    assert [[step["reward"] for step in item] for item in buffer.memory] == [[0.0, 1.0, 50.0], [1.0, 50.0, 3.0]]
    assert drawn_rewards(buffer) == [51.0, 54.0]


def test_a_minibatch_in_lists_shows_a_change_in_all_its_items():
    buffer = filled(4, num_steps=3)
    experiences = buffer.sample(2)
    experiences[0][1]["reward"] = experiences[0][2]["reward"] = 100.0
    batch = batch_experiences(experiences, "cpu", lambda x: x, 1.0, batch_states)
    assert sorted(batch["reward"].tolist()) == drawn_rewards(buffer)


def test_steps_of_episodes_are_changed_in_what_is_drawn_and_in_memory():
    buffer = EpisodicReplayBuffer()
    for i in range(6):
        append(buffer, i, terminal=i % 3 == 2)
    for episode in buffer.sample_episodes(2):
        for step in episode:
            step["reward"] += 100
    buffer.episodic_memory[0][1]["action"] = 9
    assert [item[0]["reward"] for item in buffer.memory] == [100, 101, 102, 103, 104, 105]
    batch = buffer.sample_sequences(2)
    assert sorted(batch.reward.tolist()) == [100, 101, 102, 103, 104, 105] and 9 in batch.action.tolist()


def test_the_priority_function_of_an_episode_may_change_its_steps():
    def priority(episode):
        episode[0]["reward"] = -1.0
        return 2.0

    buffer = PrioritizedEpisodicReplayBuffer(default_priority_func=priority)
    append(buffer, 5, terminal=True)
    assert buffer.memory[0][0]["reward"] == -1.0


def test_an_observation_is_changed_in_one_transition_alone():
    buffer = filled(3)
    buffer.memory[0][0]["next_state"] = np.full(2, 50, np.float32)
    buffer.memory[2][0]["state"] = np.full(2, 60, np.float32)
    shown = [[float(item[0][name][0]) for name in ("state", "next_state")] for item in buffer.memory]
    assert shown == [[0, 50], [1, 2], [60, 3]]
    append(buffer, 3)
    assert [float(buffer.memory[3][0][name][0]) for name in ("state", "next_state")] == [3, 4]


def test_arrays_are_read_only_and_copies_are_not():
    buffer = ReplayBuffer()
    nested = {"image": np.zeros((2, 2)), "place": (np.zeros(2),)}
    buffer.append(nested, np.zeros(3), 0.0, nested, mask=np.ones(2, bool))
    step = buffer.sample(1)[0][0]
    for array in (step["action"], step["mask"], step["state"]["image"], step["next_state"]["place"][0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(ValueError, match="read-only"):
        step["action"] *= 2
    with pytest.raises(TypeError, match="assign a whole observation"):
        step["state"]["image"] = np.ones((2, 2))
    step["state"] = {**step["state"], "image": np.ones((2, 2))}
    assert buffer.sample_batch(1).obs["image"].tolist() == [[[1, 1], [1, 1]]]
    assert copy.deepcopy(step)["state"]["image"].flags.writeable


def test_a_value_is_copied():
    buffer = filled(1)
    state = np.full(2, 5, np.float32)
    buffer.memory[0][0]["state"] = state
    state[:] = 9
    assert buffer.memory[0][0]["state"].tolist() == [5, 5]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("action", np.zeros(2), "action: got ndarray of shape .*, expected a number, int64"),
        ("state", np.zeros(3, np.float32), "state: got ndarray of shape \\(3,\\)"),
        ("reward", None, "reward is None \\(NoneType\\), expected a single number"),
        ("bonus", 1.0, "bonus: got float .*, expected one of the keys"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_changed(key, value, message):
    buffer = filled(1)
    step = buffer.memory[0][0]
    before = str(step)
    with pytest.raises((ValueError, TypeError), match=message):
        step.update({"is_state_terminal": True, key: value})
    assert str(step) == before == str(buffer.memory[0][0])


def test_keys_stay():
    step = filled(1).memory[0][0]
    for remove in (
        lambda: step.pop("reward"), lambda: step.__delitem__("state"), step.clear, step.popitem,
    ):  # fmt: skip
        with pytest.raises(TypeError, match="stored transition, which keeps its keys"):
            remove()
    assert step.setdefault("reward", 9.0) == 0.0 and step.pop("none", 5) == 5
    with pytest.raises(ValueError, match="bonus"):
        step.setdefault("bonus", 1.0)


def test_a_weight_belongs_to_the_draw_and_is_not_stored():
    buffer = filled(2)
    (item,) = buffer.sample(1)
    item[0]["weight"] = 0.5
    item[0].update(weight=0.25, reward=7.0)
    assert item[0].pop("weight") == 0.25
    assert 7.0 in drawn_rewards(buffer) and buffer.sample_batch(1).weight is None


@pytest.mark.parametrize("change", [lambda item: item.append({}), lambda item: item.__setitem__(0, {}), list.clear])
def test_the_list_of_an_item_is_read_only(change):
    item = filled(1).memory[0]
    if change is list.clear:
        change = type(item).clear
    with pytest.raises(TypeError, match="change the values in them"):
        change(item)
    assert type(item[:]) is list


def test_a_transition_is_one_object_for_as_long_as_somebody_has_it():
    buffer = filled(3, num_steps=2)
    step = buffer.memory[0][1]
    assert step is buffer.memory[1][0]
    buffer.memory[1][0]["reward"] = 5.0
    assert step["reward"] == 5.0
    del step
    gc.collect()
    assert len(buffer._handed_out) == 0


def test_copies_are_ordinary_dicts_and_lists():
    item = filled(2, num_steps=2).memory[0]
    step = item[0]
    for made in (dict(step), {**step}, step.copy(), step | {}, copy.copy(step), copy.deepcopy(step),
                 pickle.loads(pickle.dumps(step))):  # fmt: skip
        assert type(made) is dict and made.keys() == step.keys()
    for made in (list(item), item[:], copy.copy(item), copy.deepcopy(item), pickle.loads(pickle.dumps(item))):
        assert type(made) is list and len(made) == 2


def test_a_copy_of_a_buffer_has_transitions_of_its_own():
    buffer = filled(2)
    step = buffer.memory[0][0]
    for other in (copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer))):
        other.memory[0][0]["reward"] = 9.0
        assert other.memory[0][0]["reward"] == 9.0
    assert step["reward"] == buffer.memory[0][0]["reward"] == 0.0


# Transitions that are not there any more


def left(buffer, step):
    with pytest.raises(LookupError, match="cannot set \\['reward'\\]: this transition has left the replay buffer"):
        step["reward"] = -1.0
    assert all(item[0]["reward"] >= 0 for item in buffer.memory)


def test_a_transition_that_was_overwritten_refuses_and_the_newer_one_stays():
    buffer = filled(3, capacity=3)
    step = buffer.memory[0][0]
    append(buffer, 3)
    append(buffer, 4)
    assert step.row == buffer.memory[-1][0].row
    left(buffer, step)
    assert step["reward"] == 0.0


def test_a_transition_that_is_still_in_a_later_item_is_changed_there():
    buffer = filled(4, capacity=2, num_steps=3)
    step = buffer.memory[1][2]
    append(buffer, 4)
    step["reward"] = 40.0
    assert [[s["reward"] for s in item] for item in buffer.memory] == [[1.0, 2.0, 40.0], [2.0, 40.0, 4.0]]


def test_transitions_of_a_buffer_that_was_loaded_or_freed_refuse(tmp_path):
    buffer = filled(3)
    buffer.save(str(tmp_path / "buffer"))
    step = buffer.memory[0][0]
    buffer.load(str(tmp_path / "buffer"))
    left(buffer, step)
    step = buffer.memory[0][0]
    buffer.memory = None
    with pytest.raises(LookupError, match="has left"):
        step["reward"] = 1.0


# Buffers whose transitions cannot be changed, or not everywhere


def goal_obs(i):
    return {name: np.full(2, i, np.float32) for name in ("observation", "achieved_goal", "desired_goal")}


def hindsight(**options):
    buffer = HindsightReplayBuffer(10, lambda achieved, desired, info: np.zeros(len(achieved)), **options)
    for i in range(3):
        buffer.append(goal_obs(i), 0, float(i), goal_obs(i + 1))
    buffer.stop_current_episode()
    return buffer


def test_what_a_hindsight_buffer_draws_is_read_only_and_its_memory_is_not():
    buffer = hindsight()
    for item in buffer.sample(3):
        with pytest.raises(TypeError, match="hindsight buffer makes its steps anew.*buffer.memory"):
            item[0]["reward"] = 1.0
    buffer.memory[0][0]["action"] = 5
    assert sorted(item[0]["action"] for item in buffer.sample(3)) == [0, 0, 5]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"next_state": None}, "next_state: got None"),
        ({"is_state_terminal": True}, "terminated_fn is None"),
        ({"state": {"observation": np.zeros(2)}}, "state: got a dict with keys"),
    ],
)
def test_a_hindsight_buffer_refuses_what_it_would_not_have_stored(changes, message):
    with pytest.raises(ValueError, match=message):
        hindsight().memory[0][0].update(changes)


def test_a_persistent_buffer_of_episodes_refuses(tmp_path):
    with PersistentEpisodicReplayBuffer(tmp_path, 10) as buffer:
        append(buffer, 0, terminal=True)
        with pytest.raises(TypeError, match="cannot set \\['reward'\\] .* written once"):
            buffer.sample_episodes(1)[0][0]["reward"] = 1.0
