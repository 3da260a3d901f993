from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from pfrl_like.utils.env_values import own_copy

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "nest",
    [
        lambda array: array,
        lambda array: {"a": (array, 1)},
        lambda array: OrderedDict(a=[array]),
        lambda array: Pair(array, "text"),
    ],
)
def test_arrays_in_nests_are_copied(nest):
    array = np.zeros(2)
    value, copy = nest(array), own_copy(nest(array))
    assert repr(copy) == repr(value) and type(copy) is type(value)
    before = repr(copy)
    array += 1
    assert repr(copy) == before != repr(value)


@pytest.mark.parametrize("thing", [object(), 1.5, "text", None])
def test_other_objects_are_passed_on(thing):
    assert own_copy(thing) is thing
