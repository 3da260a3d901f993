import weakref

import pytest

from pfrl_like.collections import RandomAccessQueue


def test_assignment_replaces_an_item():
    queue = RandomAccessQueue([1, 2, 3, 4])
    queue.popleft()
    queue[0], queue[-1] = 20, 40
    assert list(queue) == [20, 3, 40]


@pytest.mark.parametrize("i", [2, -3])
def test_index_outside_is_refused(i):
    queue = RandomAccessQueue([0, 1, 2])
    queue.popleft()
    with pytest.raises(IndexError, match=f"index {i} .* 2 items"):
        queue[i]
    with pytest.raises(IndexError):
        queue[i] = 0


def test_popleft_of_an_empty_queue_is_refused():
    with pytest.raises(IndexError):
        RandomAccessQueue().popleft()


def test_maxlen_drops_the_oldest():
    queue = RandomAccessQueue(range(4), maxlen=3)
    queue.append(4)
    queue.extend([5, 6])
    assert list(queue) == [4, 5, 6] and queue.maxlen == 3


def test_maxlen_zero_keeps_nothing():
    queue = RandomAccessQueue([1], maxlen=0)
    queue.append(2)
    assert len(queue) == 0


def test_negative_maxlen_is_refused():
    with pytest.raises(ValueError, match="maxlen .* -1"):
        RandomAccessQueue(maxlen=-1)


def test_departed_items_are_released():
    class Item:
        pass

    item = Item()
    reference = weakref.ref(item)
    queue = RandomAccessQueue([item, 1, 2, 3, 4])
    del item
    queue.popleft()
    assert reference() is None


def test_long_use_agrees_with_a_list():
    queue, expected = RandomAccessQueue(), []
    for step in range(500):
        queue.append(step)
        expected.append(step)
        if step % 3:
            assert queue.popleft() == expected.pop(0)
        assert list(queue) == expected and len(queue) == len(expected)


def test_repr_shows_content_and_limit():
    assert repr(RandomAccessQueue([1, 2], maxlen=5)) == "RandomAccessQueue([1, 2], maxlen=5)"


def test_sample_draws_distinct_items():
    queue = RandomAccessQueue("abcde")
    assert sorted(queue.sample(5)) == list("abcde")
    assert len(set(queue.sample(3))) == 3


def test_sample_of_more_than_there_is_is_refused():
    with pytest.raises(ValueError, match="k is 3 and n is 2"):
        RandomAccessQueue([1, 2]).sample(3)
