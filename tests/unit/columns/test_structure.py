import pytest

from pfrl_like.columns import Columns
from pfrl_like.columns.field import Field
from pfrl_like.columns.structure import flatten, from_json, structure_of, to_json

NEST = {"camera": (1, [2, 3]), "speed": 4.0}


def test_lists_are_leaves_and_dicts_and_tuples_are_nests():
    structure, leaves = structure_of(NEST)
    assert structure == {"camera": (0, 1), "speed": 2}
    assert leaves == [1, [2, 3], 4.0]


def test_the_order_of_keys_does_not_matter():
    structure, _ = structure_of({"a": 1, "b": 2})
    assert [leaf for _, leaf in flatten({"b": 20, "a": 10}, structure, "obs")] == [10, 20]


def test_a_structure_survives_json():
    structure, _ = structure_of({"a": ({1: 0}, 2), "b": 3})
    assert from_json(to_json(structure)) == structure


def test_a_key_that_json_would_change_is_refused():
    with pytest.raises(ValueError, match="None"):
        to_json(structure_of({None: 1})[0])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"camera": (1, 2)},
            r"obs: got a dict with keys \['camera'\], expected a dict with keys \['camera', 'speed'\]",
        ),
        (3, "obs: got int, expected a dict with keys"),
        ({"camera": (1,), "speed": 0}, r"obs\['camera'\]: got 1 items, expected a tuple of 2 items"),
        ({"camera": 1, "speed": 0}, r"obs\['camera'\]: got int, expected a tuple of 2 items"),
        ({"camera": (1, 2), "speed": (0,)}, r"obs\['speed'\]: got tuple, expected a single value"),
    ],
)
def test_another_structure_is_refused_with_the_place(value, message):
    with pytest.raises(ValueError, match=message):
        list(flatten(value, structure_of(NEST)[0], "obs"))


def test_a_description_whose_structure_has_other_leaves_is_refused():
    with pytest.raises(ValueError, match="has the leaves"):
        Field.from_spec(Columns().obs_rows, {"structure": {"dict": [["x", 1]]}, "leaves": []})
