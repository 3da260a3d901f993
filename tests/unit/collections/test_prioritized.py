import numpy as np
import pytest

from pfrl_like.collections import PrioritizedBuffer
from pfrl_like.collections.prioritized import MAX_LOADED_SLOTS, Priorities
from pfrl_like.errors import NonFiniteError


def buffer_of(priorities, **kwargs):
    buffer = PrioritizedBuffer(**kwargs)
    for value, priority in enumerate(priorities):
        buffer.append(value, priority)
    return buffer


def test_sample_reports_the_probabilities_before_any_removal():
    values, probabilities, min_probability = buffer_of([1.0, 2.0, 5.0]).sample(3)
    assert sorted(values) == [0, 1, 2]
    assert [probabilities[values.index(i)] for i in range(3)] == [0.125, 0.25, 0.625]
    assert min_probability == 0.125


def test_uniform_ratio_mixes_the_probabilities():
    """Half uniform over 4 items, half by priority: 0.5 / 4 + 0.5 * p / 10."""
    values, probabilities, min_probability = buffer_of([1.0, 2.0, 3.0, 4.0]).sample(4, uniform_ratio=0.5)
    assert sorted(values) == [0, 1, 2, 3]
    assert [probabilities[values.index(i)] for i in range(4)] == pytest.approx([0.175, 0.225, 0.275, 0.325])
    assert min_probability == pytest.approx(0.175)


@pytest.mark.parametrize("ratio", [-0.1, 1.5, float("nan")])
def test_a_ratio_that_is_no_probability_is_refused(ratio):
    with pytest.raises(ValueError, match="uniform_ratio"):
        buffer_of([1.0]).sample(1, uniform_ratio=ratio)


def test_new_items_get_the_largest_priority_so_far():
    buffer = buffer_of([1.0])
    buffer.sample(1)
    buffer.set_last_priority([4.0])
    buffer.append("new")
    buffer.popleft()
    buffer.append(2, priority=1.0)
    values, probabilities, _ = buffer.sample(2)
    assert buffer.max_priority == 4.0
    assert probabilities[values.index("new")] == 0.8


def test_initial_max_priority_is_that_of_the_first_items():
    buffer = PrioritizedBuffer(initial_max_priority=3.0)
    buffer.append("first")
    buffer.append("light", priority=1.0)
    assert (buffer.priority_sums.sum(), buffer.priority_mins.min()) == (4.0, 1.0)
    values, probabilities, _ = buffer.sample(2)
    assert probabilities[values.index("first")] == 0.75


def test_capacity_drops_the_oldest_item():
    buffer = buffer_of([1.0] * 5, capacity=3)
    assert len(buffer) == 3 and sorted(buffer.sample(3)[0]) == [2, 3, 4]


def test_popleft_of_an_empty_buffer_is_refused_and_leaves_it_usable():
    buffer = PrioritizedBuffer()
    with pytest.raises(IndexError):
        buffer.popleft()
    buffer.append("a")
    assert buffer.sample(1)[0] == ["a"]


def test_sampling_again_before_the_priorities_are_set_is_refused():
    buffer = buffer_of([1.0, 2.0])
    buffer.sample(1)
    with pytest.raises(RuntimeError, match="set_last_priority"):
        buffer.sample(1)
    buffer.set_last_priority([1.0])
    buffer.sample(1)


def test_setting_priorities_without_a_sample_is_refused():
    with pytest.raises(RuntimeError, match="sample"):
        buffer_of([1.0]).set_last_priority([1.0])


def test_items_that_left_after_the_sample_are_skipped():
    buffer = buffer_of([1.0, 1.0])
    values, _, _ = buffer.sample(2)
    buffer.popleft()
    buffer.append("new", priority=1.0)
    buffer.set_last_priority([value + 2.0 for value in values])
    values, probabilities, _ = buffer.sample(2)
    assert probabilities[values.index("new")] == 0.25 and buffer.max_priority == 3.0


@pytest.mark.parametrize("n", [-1, 3])
def test_impossible_numbers_are_refused(n):
    with pytest.raises(ValueError, match=f"n={n}"):
        buffer_of([1.0, 1.0]).sample(n)


def test_nothing_is_drawn_of_an_empty_buffer():
    assert PrioritizedBuffer().sample(0) == ([], [], np.inf)


def test_capacity_zero_is_refused():
    with pytest.raises(ValueError, match="capacity .* 0"):
        PrioritizedBuffer(capacity=0)


@pytest.mark.parametrize("priority", [0.0, 1e-201, -1.0, 1e201, float("nan"), float("inf")])
def test_an_impossible_priority_is_refused_before_anything_changes(priority):
    buffer = buffer_of([1.0, 2.0])
    with pytest.raises(ValueError, match="priority"):
        buffer.append("bad", priority)
    values, probabilities, _ = buffer.sample(2)
    with pytest.raises(ValueError, match="priority"):
        buffer.set_last_priority([5.0, priority])
    assert len(buffer) == 2 and buffer.max_priority == 1.0
    buffer.set_last_priority([p * 3 for p in probabilities])
    assert sorted(buffer.sample(2)[0]) == [0, 1]


@pytest.mark.parametrize(
    ("index", "values", "error", "message"),
    [
        ([0], [np.nan], NonFiniteError, "priority holds nan"),
        ([2], [1.0], ValueError, "index contains 2"),
        ([0, 1], [1.0], ValueError, r"\(2,\) and \(1,\)"),
    ],
)
def test_what_cannot_be_priorities_of_items_is_refused(index, values, error, message):
    priorities = Priorities()
    priorities.append(2)
    with pytest.raises(error, match=message):
        priorities.update(index, values)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"size": 96, "written": 2}, "size=96"),
        ({"size": -64, "written": 2}, "size=-64"),
        ({"size": 0, "written": 0}, "size=0"),
        ({"size": 1, "written": 2}, "size=1,"),
        ({"size": 64, "written": 4}, "written=4, .* from 0 to 3"),
        ({"size": 64, "written": -1}, "written=-1, .* from 0 to 3"),
        ({"size": 64, "written": 1}, "other values than max_priority=2.0"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(layout, message):
    with pytest.raises(ValueError, match=message):
        Priorities.from_array([1.0, 1.5, 2.0], 2.0, layout=layout)


def test_a_layout_that_is_far_too_large_costs_no_memory():
    rebuilt = Priorities.from_array([1.0, 2.0], 2.0, layout={"size": 2**60, "written": 2})
    assert rebuilt.layout() == {"size": MAX_LOADED_SLOTS, "written": 2}
    assert rebuilt.to_array().tolist() == [1.0, 2.0]
