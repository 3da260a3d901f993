import numpy as np
import pytest

from pfrl_like.collections import SumTree
from pfrl_like.collections.prioritized import WIDEST_ROOT


def tree_of(weights):
    tree = SumTree(len(weights))
    tree[np.arange(len(weights))] = weights
    return tree


def test_slots_start_empty():
    tree = SumTree(5)
    assert len(tree) == 5 and tree.total() == 0.0 and tree.min() == np.inf and tree[:].tolist() == [0.0] * 5


def test_reading_gives_a_copy():
    tree = tree_of([1.0, 2.0])
    tree[:][0] = 9.0
    assert tree.total() == 3.0


def test_no_rounding_error_stays_of_a_large_weight_that_has_left():
    tree = SumTree(WIDEST_ROOT * 2)
    tree[np.arange(len(tree))] = 1e-10
    exact = tree.total()
    tree[np.array([5])] = 1e20
    assert tree.total() == 1e20
    tree[np.array([5])] = 1e-10
    assert tree.total() == exact


class Points:
    """A source that gives the numbers it was made with."""

    def __init__(self, numbers):
        self.numbers = numbers

    def random(self, n):
        return self.numbers[:n]


@pytest.mark.parametrize(("size", "n_occupied"), [(3 * WIDEST_ROOT, 3 * WIDEST_ROOT), (65 * WIDEST_ROOT, 64 * 64)])
def test_rounding_never_draws_an_empty_slot(size, n_occupied):
    """Points at the ends of the blocks and some rounding steps beside them; blocks begin and end empty."""
    weights = np.random.default_rng(0).lognormal(0, 4, size) * 1.3 ** (np.arange(size) // 64 % 64)
    weights[(np.arange(size) % 64 < 3) | (np.arange(size) % 64 > 60) | (np.arange(size) >= n_occupied)] = 0.0
    tree = tree_of(weights)
    for block in (64, 64 * 64):
        ends = np.cumsum(weights.reshape(-1, block).sum(axis=1)) / tree.total()
        for step in (-20, -10, -5, -3, -2, -1, 0, 1, 2, 3, 5, 10, 20):
            points = np.clip(ends + step * np.spacing(ends), 0.0, 1.0 - 2.0**-53)
            assert tree[tree.draw(len(points), Points(points))].min() > 0.0


def test_distinct_draws_end_when_every_slot_outweighs_all_later_ones():
    tree = tree_of(1e12 ** -np.arange(10.0))
    assert tree.draw_distinct(10).tolist() == list(range(10))


def test_excluded_slots_are_not_drawn():
    tree = tree_of([1.0, 2.0, 100.0, 3.0])
    for _ in range(20):
        assert set(tree.draw_distinct(2, exclude=np.array([2, 0])).tolist()) == {1, 3}


def test_distinct_draws_have_the_distribution_of_drawing_without_replacement():
    """Weights 6, 3, 1: P(0, 1) = 6/10 * 3/4, P(0, 2) = 6/10 * 1/4, P(1, 0) = 3/10 * 6/7, ..."""
    chance = {(0, 1): 0.45, (0, 2): 0.15, (1, 0): 18 / 70, (1, 2): 3 / 70, (2, 0): 6 / 90, (2, 1): 3 / 90}
    tree, counts = tree_of([6.0, 3.0, 1.0]), dict.fromkeys(chance, 0)
    for _ in range(4000):
        first, second = tree.draw_distinct(2).tolist()
        counts[first, second] += 1
    for pair, p in chance.items():
        assert abs(counts[pair] / 4000 - p) < 5 * np.sqrt(p * (1 - p) / 4000)


def test_too_few_weights_are_refused_and_stay_as_they_were():
    tree = tree_of([1.0, 0.0, 2.0])
    with pytest.raises(ValueError, match="all 0"):
        tree.draw_distinct(3)
    assert tree[:].tolist() == [1.0, 0.0, 2.0]


def test_drawing_from_an_empty_tree_is_refused():
    with pytest.raises(ValueError, match="all 0"):
        SumTree(3).draw(1)


def test_size_zero_is_refused():
    with pytest.raises(ValueError, match="size .* 0"):
        SumTree(0)


def test_an_own_source_leaves_the_global_stream():
    tree, before = tree_of(np.ones(100)), np.random.get_state()[1].tolist()
    assert tree.draw(5, np.random.default_rng(1)).tolist() == tree.draw(5, np.random.default_rng(1)).tolist()
    assert np.random.get_state()[1].tolist() == before


def test_many_writes_without_a_question_do_not_pile_up():
    tree = SumTree(10_000)
    for step in range(3000):
        tree[np.array([step % 7])] = 1.0 + step
    assert len(tree._marked) < 2000
    assert tree.total() == sum(range(2994, 3001))
