import numpy as np
import pytest

from pfrl_like.utils.random import sample_n_k

# One pair for each way of drawing: rare repeats, frequent repeats, nearly everything.
PAIRS = [(1000, 5), (100, 15), (10, 9)]


@pytest.mark.parametrize(("n", "k"), [*PAIRS, (5, 5), (1, 1), (0, 0), (3, 0)])
def test_numbers_are_distinct_and_in_range(n, k):
    drawn = sample_n_k(n, k)
    assert drawn.dtype == np.int64
    assert len(set(drawn.tolist())) == len(drawn) == k
    assert all(0 <= number < n for number in drawn)


@pytest.mark.parametrize(("n", "k"), [(3, 4), (3, -1), (0, 1)])
def test_impossible_numbers_are_refused(n, k):
    with pytest.raises(ValueError, match=f"k is {k} and n is {n}"):
        sample_n_k(n, k)


@pytest.mark.parametrize(("n", "k"), [(4, 2), (7, 2), (3, 2)])
def test_every_ordered_tuple_is_equally_likely(n, k):
    """Pairs of 4 (few repeats), 7 (drawn with k * k <= n, too) and 3 (permuted)."""
    _assert_tuples_uniform(n, k, n_draws=6000)


def test_tuples_are_uniform_where_repeats_are_dropped():
    """k * k > n and 3 * k < n: with 13 and 4 the repeats of eight independent draws are dropped."""
    drawn = np.array([sample_n_k(13, 4) for _ in range(6000)])
    for first, second in ((0, 1), (1, 3), (2, 3)):
        counts = np.bincount(drawn[:, first] * 13 + drawn[:, second], minlength=169).reshape(13, 13)
        assert np.diag(counts).sum() == 0
        _assert_counts_uniform(counts[~np.eye(13, dtype=bool)])


@pytest.mark.parametrize(("n", "k"), PAIRS)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_an_own_source_gives_the_same_numbers_again_and_leaves_the_global_stream(n, k, make):
    before = np.random.get_state()[1].tolist()
    assert sample_n_k(n, k, make(7)).tolist() == sample_n_k(n, k, make(7)).tolist()
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize(("n", "k"), PAIRS)
def test_the_global_stream_is_the_default(n, k):
    np.random.seed(3)
    first = sample_n_k(n, k)
    np.random.seed(3)
    assert first.tolist() == sample_n_k(n, k).tolist()


def _assert_tuples_uniform(n, k, n_draws):
    powers = n ** np.arange(k)
    codes = np.array([sample_n_k(n, k) @ powers for _ in range(n_draws)])
    counts = np.unique(codes, return_counts=True)[1]
    assert len(counts) == np.prod(np.arange(n - k + 1, n + 1))
    _assert_counts_uniform(counts)


def _assert_counts_uniform(counts):
    """Chi-squared lies within five standard deviations of its mean."""
    expected = counts.sum() / len(counts)
    freedom = len(counts) - 1
    assert ((counts - expected) ** 2 / expected).sum() < freedom + 5 * np.sqrt(2 * freedom)
