import tracemalloc

import numpy as np
import pytest

from pfrl_like.columns.leaves import ArrayLeaf, DtypeError, ObjectLeaf, Rows, as_array, expect


def leaf(shape=(3,), dtype=np.float32, strict=True):
    return ArrayLeaf(Rows(), shape, dtype, strict)


NUMBERS = [1, 2.5, True, [1, 2], np.zeros((2, 2)), np.float32(1), 1j]
OTHERS = ["text", None, [1, [2, 3]], object(), np.array(["a"]), {"a": 1}, np.longdouble(1)]


def test_numbers_and_nothing_else_are_arrays():
    assert [as_array(value) is not None for value in NUMBERS + OTHERS] == [True] * len(NUMBERS) + [False] * len(OTHERS)


def test_byte_order_becomes_the_machines():
    assert as_array(np.array([1, 2], ">i4")).dtype.isnative


def test_a_strict_column_takes_lists_numbers_of_no_dtype_and_what_can_be_cast_without_loss():
    assert leaf((2,), np.float64).check(np.array([1.5, 2], np.float32), "obs").tolist() == [1.5, 2.0]
    assert leaf().check([1.0, 2, 3], "obs").dtype == np.float32
    assert leaf((), np.float32).check(1, "obs").dtype == np.float32


def test_a_strict_column_casts_arrays_that_lose_nothing():
    assert leaf().check(np.array([0.5, np.nan, np.inf]), "obs").dtype == np.float32
    assert leaf(dtype=np.int64).check(np.array([1.0, 2, 3]), "obs").tolist() == [1, 2, 3]
    assert leaf((), bool).check(np.int64(1), "obs").dtype == bool


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.float32, 0.1), (np.float32, 1e300), (np.uint8, -1), (np.int64, np.nan), (np.float64, 1j)]
)
def test_a_strict_column_refuses_an_array_that_would_lose_something(dtype, value):
    with pytest.raises(ValueError, match="expected a number"):
        leaf((), dtype).check(np.asarray(value), "obs")


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.uint8, np.int8(-1)), (np.int8, np.uint8(255)),
        (np.uint32, np.int32(-7)), (np.int32, np.uint32(2**32 - 1)),
        (np.uint64, np.int64(-1)), (np.int64, np.uint64(2**64 - 1)),
        (np.float64, np.int64(2**53 + 1)), (np.float64, np.int64(2**63 - 1)), (np.float64, np.uint64(2**64 - 1)),
        (np.complex128, np.int64(2**53 + 1)), (np.int64, np.float64(2**63)), (np.uint64, np.float64(2**64)),
    ],
)  # fmt: skip
def test_an_integer_that_would_become_another_number_is_refused(dtype, value):
    for given in (np.asarray(value), np.full(3, value)):
        with pytest.raises(ValueError, match="cast it in a wrapper") as raised:
            leaf(given.shape, dtype).check(given, "obs")
        # A wider dtype is offered only if it loses nothing.
        assert not isinstance(raised.value, DtypeError) or int(raised.value.dtype.type(value)) == int(value)


@pytest.mark.parametrize("value", [np.int64(-(2**63)), np.int64(2**53), np.uint64(2**63)])
def test_a_large_integer_that_is_a_float_is_cast(value):
    assert int(leaf((), np.float64).check(value, "obs")) == int(value)


def test_values_of_evicted_rows_do_not_hinder_a_wider_dtype():
    column = leaf((), np.int64)
    stays, goes = column.value_rows.take(2)
    column.data[[stays, goes]] = 5, 2**53 + 1
    column.value_rows.free.append(goes)
    column.widen(np.dtype(np.float64))
    assert column.data.dtype == np.float64 and column.data[stays] == 5


def test_a_wider_dtype_needs_memory_for_the_new_column_only():
    column = leaf((1 << 12,), np.uint8)
    column.value_rows.take(1 << 10)
    tracemalloc.start()
    column.widen(np.dtype(np.float64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * column.data.nbytes


def test_a_stack_of_arrays_of_another_dtype_is_refused_too():
    with pytest.raises(ValueError, match="float64"):
        leaf().check_many([np.full(3, 0.1), np.zeros(3)], 2, "obs")


def test_another_float_is_cast_where_columns_are_not_strict():
    assert leaf(strict=False).check(np.zeros(3), "action").dtype == np.float32


def test_an_integer_that_is_too_large_is_refused():
    with pytest.raises(ValueError, match="uint8"):
        leaf((), np.uint8, strict=False).check(300, "action")


def test_equality_is_bit_for_bit():
    column = leaf()
    row = column.data.shape[0] - 1
    column.put(row, np.array([np.nan, 0, 1], np.float32), previous_row=0)
    assert column.same(row, np.array([np.nan, 0, 1], np.float32))
    assert not column.same(row, np.array([np.nan, 0, 2], np.float32))
    many = np.array([[np.nan, 0, 1], [np.nan, 0, 2]], np.float32)
    assert column.same_many(np.array([row, row]), many).tolist() == [True, False]


def test_values_without_elements_are_equal():
    assert leaf((0,)).same_many(np.zeros(2, np.int64), np.zeros((2, 0), np.float32)).all()


def test_objects_pass_unchecked_and_equal_only_themselves():
    rows = Rows()
    column = ObjectLeaf(rows)
    (row,) = rows.take(1)
    thing = ["a", {}]
    column.put(row, thing, previous_row=0)
    assert column.job(np.array([row]))[0] is thing
    assert column.same(row, thing)
    assert not column.same(row, ["a", {}])


def test_a_dropped_object_is_let_go():
    rows = Rows()
    column = ObjectLeaf(rows)
    (row,) = rows.take(1)
    column.put(row, object(), previous_row=0)
    column.drop(row)
    assert column.data[row] is None


@pytest.mark.parametrize("arrays", [{}, {"data": np.zeros(2)}, {"data": np.zeros(3, np.int8)}])
def test_saved_arrays_that_do_not_fit_are_refused(arrays):
    with pytest.raises(ValueError, match="data"):
        expect(arrays, "data", (3,), np.float64)


def test_a_refused_dtype_comes_with_a_way_out():
    with pytest.raises(ValueError, match="reset and step of the environment must return the same dtype"):
        leaf((2,)).check(np.full(2, 0.1), "next_obs")
