"""What buffers hand out: dicts and lists in PFRL's form, through which what is stored can be changed."""

import copy
import gc
import pickle

import numpy as np
import pytest
from buffer_parts import append, filled

from pfrl_like.replay_buffers import HindsightReplayBuffer, PrioritizedEpisodicReplayBuffer, ReplayBuffer


def test_the_priority_function_of_an_episode_may_change_its_steps():
    def priority(episode):
        episode[0]["reward"] = -1.0
        return 2.0

    buffer = PrioritizedEpisodicReplayBuffer(default_priority_func=priority)
    append(buffer, 5, terminal=True)
    assert buffer.memory[0][0]["reward"] == -1.0


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


def test_keys_stay():
    step = filled(1).memory[0][0]
    for remove in (lambda: step.pop("reward"), lambda: step.__delitem__("state"), step.clear, step.popitem):
        with pytest.raises(TypeError, match="stored transition: change a copy"):
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
    batch = buffer.sample_batch(2)
    assert 7.0 in batch.reward and batch.weight is None


@pytest.mark.parametrize("change", [lambda item: item.append({}), lambda item: item.__setitem__(0, {}), list.clear])
def test_the_list_of_an_item_is_read_only(change):
    item = filled(1).memory[0]
    if change is list.clear:
        change = type(item).clear
    with pytest.raises(TypeError, match="change the values in its transitions"):
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
    assert len(buffer._transition_cache) == 0


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


@pytest.mark.parametrize("freed", [False, True])
def test_transitions_of_a_buffer_that_was_loaded_or_freed_refuse(freed, tmp_path):
    buffer = filled(3)
    buffer.save(str(tmp_path / "buffer"))
    step = buffer.memory[0][0]
    if freed:
        buffer.memory = None
    else:
        buffer.load(str(tmp_path / "buffer"))
    text = r"cannot set \['reward'\]: this transition was removed from the replay buffer"
    with pytest.raises(LookupError, match=text):
        step["reward"] = -1.0
    assert freed or buffer.memory[0][0]["reward"] == 0.0


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
        with pytest.raises(TypeError, match="hindsight buffer creates the transitions.*buffer.memory"):
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
