from collections import Counter

import numpy as np
import pytest

from pfrl_like.replay_buffers.episodic import subsequences


def drawn(lengths, max_len, held=None, n=2000):
    """How often each (begin, length) is drawn for each of the episodes."""
    rng = np.random.default_rng(0)
    counts = [Counter() for _ in lengths]
    for _ in range(n):
        begins, parts = subsequences(np.array(lengths), max_len, held, rng)
        for count, begin, part in zip(counts, begins.tolist(), parts.tolist(), strict=True):
            count[begin, part] += 1
    return counts


def test_short_episodes_are_taken_whole():
    assert [set(count) for count in drawn([1, 3, 5], 3)] == [{(0, 1)}, {(0, 3)}, {(0, 3), (1, 3), (2, 3)}]


def test_without_a_limit_episodes_are_taken_whole():
    assert [set(count) for count in drawn([1, 7], None)] == [{(0, 1)}, {(0, 7)}]


def test_every_beginning_of_full_length_is_equally_likely():
    (count,) = drawn([6], 3)
    assert set(count) == {(begin, 3) for begin in range(4)}
    assert min(count.values()) > 400


def test_where_every_step_holds_a_state_parts_are_those_without_states():
    (count,) = drawn([6], 3, np.ones(6, bool))
    assert set(count) == {(begin, 3) for begin in range(4)}


def test_parts_begin_where_a_state_is_held_and_reach_the_end():
    held = np.array([1, 0, 0, 1, 0, 0, 1, 0], bool)
    (count,) = drawn([8], 3, held)
    assert set(count) == {(0, 3), (3, 3), (6, 2)}
    assert min(count.values()) > 550


def test_the_first_step_may_always_begin_a_part():
    (count,) = drawn([5], 2, np.zeros(5, bool))
    assert set(count) == {(0, 2)}


def test_no_shorter_part_is_drawn_where_a_full_one_reaches_the_end():
    held = np.array([1, 0, 1, 1, 1], bool)
    (count,) = drawn([5], 3, held)
    assert set(count) == {(0, 3), (2, 3)}


def test_episodes_do_not_see_each_others_states():
    held = np.array([0, 0, 0, 0, 1, 0, 1, 0], bool)
    first, second = drawn([4, 4], 2, held)
    assert set(first) == {(0, 2)}
    assert set(second) == {(0, 2), (2, 2)}


@pytest.mark.parametrize("rng", [np.random.default_rng(1), np.random.RandomState(1), None])
def test_any_source_of_randomness_will_do(rng):
    begins, parts = subsequences(np.array([9]), 4, None, rng)
    assert 0 <= begins[0] <= 5
    assert parts.tolist() == [4]
