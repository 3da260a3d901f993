"""Queues with trees of sums and minima; the numbers are those of PFRL's queues with the same seed."""

import math

import numpy as np
import pytest

from pfrl_like.collections.prioritized import MinTreeQueue, SumTreeQueue, TreeQueue


def sums() -> SumTreeQueue:
    """Weights 2, 6, 4, 5."""
    queue = SumTreeQueue()
    for weight in (1.0, 2.0, 3.0, 4.0, 5.0):
        queue.append(weight)
    assert queue.popleft() == 1.0
    queue[1] = 6.0
    return queue


def test_draws_are_pfrls() -> None:
    np.random.seed(0)
    queue = sums()
    assert (queue.sum(), queue.length) == (17.0, 4)
    assert queue.prioritized_sample(3, remove=False) == ([2, 3, 1], [4.0, 5.0, 6.0])
    assert queue.sum() == 17.0
    assert queue.prioritized_sample(2, remove=True) == ([2, 1], [4.0, 6.0])
    assert queue.sum() == 7.0  # 2 + 5
    assert queue.uniform_sample(2, remove=False) == ([3, 0], [5.0, 2.0])
    for weight in range(1, 20):
        queue.append(float(weight))
    for _ in range(5):
        queue.popleft()
    assert queue.prioritized_sample(5, remove=True) == ([9, 3, 8, 12, 16], [11.0, 5.0, 10.0, 14.0, 18.0])
    assert (queue.sum(), queue.length) == (131.0, 18)  # 2 + 3 + ... + 19 = 189, less 58


def test_a_queue_follows_a_list_through_many_changes() -> None:
    rng = np.random.default_rng(0)
    queue, minima, expected = SumTreeQueue(), MinTreeQueue(), []  # type: ignore[var-annotated]
    for i in range(400):
        weight = float(rng.integers(1, 100))
        if expected and rng.random() < 0.4:
            assert queue.popleft() == minima.popleft() == expected.pop(0)
        elif expected and rng.random() < 0.3:
            at = int(rng.integers(len(expected)))
            queue[at] = minima[at] = expected[at] = weight
        else:
            queue.append(weight)
            minima.append(weight)
            expected.append(weight)
        assert queue.length == len(expected), i
        assert (queue.sum(), minima.min()) == (sum(expected), min(expected, default=math.inf))


def test_weights_are_drawn_in_proportion() -> None:
    np.random.seed(0)
    queue = sums()
    drawn = [queue.prioritized_sample(1, remove=False)[0][0] for _ in range(2000)]
    assert np.bincount(drawn) / 2000 == pytest.approx(np.array([2, 6, 4, 5]) / 17, abs=0.03)


def test_too_many_draws_are_refused_and_change_nothing() -> None:
    queue = sums()
    with pytest.raises(ValueError, match="n is 5, but only 4 of 4 weights are positive"):
        queue.prioritized_sample(5, remove=True)
    assert queue.sum() == 17.0


def test_minima_are_those_of_the_values_left() -> None:
    queue = MinTreeQueue()
    assert queue.min() == math.inf
    for value in (3.0, 1.0, 2.0):
        queue.append(value)
    assert (queue.min(), queue.popleft(), queue.popleft(), queue.min()) == (1.0, 3.0, 1.0, 2.0)


def test_any_associative_operation_is_accepted() -> None:
    queue = TreeQueue("".join)
    for letter in "abcde":
        queue.append(letter)
    assert queue.popleft() == "a"
    assert queue.op("xy") == "xy" and queue.length == 4


def test_wrong_calls_are_refused() -> None:
    queue = SumTreeQueue()
    with pytest.raises(IndexError, match="the queue is empty"):
        queue.popleft()
    with pytest.raises(IndexError, match="index 0 is out of range for a queue of 0 values"):
        queue[0] = 1.0
    with pytest.raises(ValueError, match="value is None"):
        queue.append(None)
