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


@pytest.mark.parametrize(
    ("lengths", "max_len", "held", "expected"),
    [
        ([1, 3, 5], 3, None, [{(0, 1)}, {(0, 3)}, {(0, 3), (1, 3), (2, 3)}]),  # short episodes whole
        ([1, 7], None, None, [{(0, 1)}, {(0, 7)}]),
        ([6], 3, None, [{(begin, 3) for begin in range(4)}]),
        ([6], 3, [1] * 6, [{(begin, 3) for begin in range(4)}]),
        ([8], 3, [1, 0, 0, 1, 0, 0, 1, 0], [{(0, 3), (3, 3), (6, 2)}]),  # up to the end
        ([5], 2, [0] * 5, [{(0, 2)}]),  # the first step may always begin a part
        ([5], 3, [1, 0, 1, 1, 1], [{(0, 3), (2, 3)}]),  # none that is shorter where a full one reaches the end
        ([4, 4], 2, [0, 0, 0, 0, 1, 0, 1, 0], [{(0, 2)}, {(0, 2), (2, 2)}]),  # of the episode's own states
    ],
)
def test_parts_begin_where_a_state_is_held_and_all_are_equally_likely(lengths, max_len, held, expected):
    counts = drawn(lengths, max_len, held if held is None else np.array(held, bool))
    assert [set(count) for count in counts] == expected
    assert all(min(count.values()) > 0.8 * 2000 / len(count) for count in counts)


@pytest.mark.parametrize("rng", [np.random.default_rng(1), np.random.RandomState(1), None])
def test_any_source_of_randomness_will_do(rng):
    begins, parts = subsequences(np.array([9]), 4, None, rng)
    assert 0 <= begins[0] <= 5
    assert parts.tolist() == [4]
