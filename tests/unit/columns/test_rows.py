import numpy as np

from pfrl_like.columns.leaves import Rows


def test_growing_keeps_what_is_stored():
    rows = Rows()
    array = rows.array((2,), np.int64)
    taken = rows.take(10_000)
    array[taken] = np.arange(20_000).reshape(-1, 2)
    rows.reserve(100_000)
    assert len(array) == rows.size > 110_000
    np.testing.assert_array_equal(array[taken], np.arange(20_000).reshape(-1, 2))


def test_new_rows_are_zero_and_none():
    rows = Rows()
    numbers, objects = rows.array((), np.float32), rows.array((), object)
    rows.reserve(5000)
    assert not numbers.any()
    assert set(objects.tolist()) == {None}
