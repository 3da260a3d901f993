"""The vectorised tree against a plain list."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfrl_like.collections import SumTree
from pfrl_like.collections.prioritized import WIDEST_ROOT

# Sizes of one, two and three levels.
SIZES = st.sampled_from([1, 63, 64, 65, WIDEST_ROOT, WIDEST_ROOT + 1, 64 * WIDEST_ROOT + 1])
WEIGHTS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))
WRITES = st.lists(st.lists(st.tuples(st.integers(0), WEIGHTS), min_size=1, max_size=8), max_size=8)


@given(SIZES, WRITES)
def test_total_and_min_agree_with_a_list(size, writes):
    tree, plain = SumTree(size), {}
    for write in writes:
        slots = np.array([slot % size for slot, _ in write])
        tree[slots] = [weight for _, weight in write]
        plain.update(zip(slots.tolist(), (weight for _, weight in write), strict=True))
        assert tree.total() == pytest.approx(sum(plain.values()), rel=1e-12)
        assert tree.min() == min((weight for weight in plain.values() if weight > 0), default=np.inf)
        assert tree[slots].tolist() == [plain[slot] for slot in slots.tolist()]


def written(size, writes):
    """A tree, the same as a dict, and the slots that have a weight."""
    tree, plain = SumTree(size), {}
    for write in writes:
        for slot, weight in write:
            tree[np.array([slot % size])] = weight
            plain[slot % size] = weight
    return tree, plain, sorted(slot for slot, weight in plain.items() if weight > 0)


@given(SIZES, WRITES, st.integers(0, 2**31))
def test_a_draw_is_the_slot_in_whose_part_of_the_sum_the_point_falls(size, writes, seed):
    tree, plain, occupied = written(size, writes)
    if not occupied:
        return
    ends = np.cumsum([plain[slot] for slot in occupied])
    points = np.random.default_rng(seed).random(20) * ends[-1]
    drawn = tree.draw(20, np.random.default_rng(seed))
    for slot, point in zip(drawn.tolist(), points, strict=True):
        position = occupied.index(slot)
        rounding = 1e-12 * ends[-1]
        assert ends[position] - plain[slot] - rounding <= point <= ends[position] + rounding


@given(SIZES, WRITES, st.integers(0, 2**31))
def test_as_many_distinct_draws_as_weights_give_each_of_them_once(size, writes, seed):
    tree, _, occupied = written(size, writes)
    drawn = tree.draw_distinct(len(occupied), np.random.default_rng(seed))
    assert sorted(drawn.tolist()) == occupied
