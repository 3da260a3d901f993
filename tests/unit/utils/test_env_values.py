from collections import OrderedDict, namedtuple
from unittest import mock

import gymnasium.spaces as spaces
import numpy as np
import pytest

from pfrl_like.utils.env_values import box_class, own_copy, space_kind

Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    "nest", [lambda array: {"a": (array, 1)}, lambda array: OrderedDict(a=[array]), lambda array: Pair(array, "text")]
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


# Kinds of spaces are told without regard to the library that made them


EXAMPLES = [
    ("Box", (0, 1, (2,)), "box"),
    ("Discrete", (2,), "discrete"),
    ("MultiDiscrete", ([2, 3],), "multi_discrete"),
    ("MultiBinary", (3,), "multi_binary"),
    ("Dict", ({},), "dict"),
    ("Tuple", ([],), "tuple"),
    ("Text", (3,), "other"),
]


@pytest.mark.parametrize("library", ["gymnasium", "gym"])
@pytest.mark.parametrize(("name", "arguments", "kind"), EXAMPLES)
def test_kind_of_a_librarys_space(library, name, arguments, kind):
    module = pytest.importorskip(f"{library}.spaces")
    assert space_kind(getattr(module, name)(*arguments)) == kind


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"low": 0, "high": 1}, "box"),
        ({"n": 3}, "discrete"),
        ({"n": 3, "shape": (3,)}, "multi_binary"),
        ({"nvec": [2]}, "multi_discrete"),
        ({"spaces": {}}, "dict"),
        ({"spaces": []}, "tuple"),
        ({}, "other"),
    ],
)
def test_kind_of_an_unknown_space_is_told_by_its_attributes(attributes, kind):
    assert space_kind(type("Mine", (), attributes)()) == kind


def test_attributes_that_say_nothing_make_no_known_kind():
    assert space_kind(mock.Mock()) == "other"
    assert space_kind(type("Mine", (), {"low": None, "high": 1, "spaces": None})()) == "other"


def test_one_of_is_no_tuple():
    assert space_kind(spaces.OneOf([spaces.Discrete(2)])) == "other"


def test_box_is_made_by_the_library_of_the_space():
    gym_spaces = pytest.importorskip("gym.spaces")
    assert box_class(gym_spaces.Discrete(2)) is gym_spaces.Box
    assert box_class(spaces.Discrete(2)) is spaces.Box
    assert box_class(object()) is spaces.Box
