"""Checksums of many values at once are those of one after the other."""

from typing import Any

import numpy as np
import pytest

from pfrl_like.storage.plain_tensors import checksum, checksum_of_many

MANY: dict[str, list[Any]] = {
    "none": [],
    "one": [np.arange(3.0)],
    "alike": [np.arange(4, dtype=np.float32) + i for i in range(5)],
    "of several kinds": [np.arange(4.0), np.arange(3, dtype=np.int8), np.array(2.5), np.zeros((0, 2))],
    "not contiguous": [np.arange(12.0).reshape(3, 4).T, np.arange(12.0)[::2], np.arange(3.0)],
    "objects": [np.array([1, "two", None], dtype=object), np.array([3.0, 4], dtype=object)],
    "nested": [{"a": np.arange(2), "b": (1, 2.0)}, [np.ones(2), "text"]],
    "texts": [np.array(["one", "two"]), np.array(["2020-01-01"], dtype="datetime64[D]")],
}


@pytest.mark.parametrize("name", MANY)
def test_of_many_is_that_of_one_after_the_other(name: str) -> None:
    values = MANY[name]
    total = 7
    for value in values:
        total = checksum(value, total)
    assert checksum_of_many(values, 7) == total
    for at in range(len(values)):
        assert checksum_of_many(values[at:], checksum_of_many(values[:at], 7)) == total
    assert not values or total != 7


def test_objects_are_told_apart_by_what_they_are_and_not_by_where() -> None:
    one, other = ([np.array([f"{1 + 1}{word}", None], dtype=object)] * 2 for word in ("x", "x"))
    assert checksum_of_many(one) == checksum_of_many(other)
    assert checksum_of_many(one) != checksum_of_many([np.array(["2y", None], dtype=object)] * 2)
