"""JSON that comes back as it went."""

import math
from typing import Any

import numpy as np
import pytest

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.json_file import dump_json, parse_json, plain_json


def round_trip(value: dict[str, Any]) -> dict[str, Any]:
    return parse_json(dump_json(value, "file"), "file")


def test_plain_values_come_back_equal() -> None:
    value = {"t": 3, "epsilon": 0.1, "on": True, "none": None, "text": "ü\n", "list": [1, [2.5]], "dict": {"": {}}}
    assert round_trip(value) == value


def test_floats_come_back_to_the_last_bit() -> None:
    values = [math.pi, 1e-320, -0.0, 0.1 + 0.2]
    assert [value.hex() for value in round_trip({"x": values})["x"]] == [value.hex() for value in values]


def test_numpy_values_become_numbers_and_lists() -> None:
    value = {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": np.arange(4).reshape(2, 2)}
    assert round_trip(value) == {"a": 3, "b": 0.5, "c": True, "d": [[0, 1], [2, 3]]}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_a_number_that_json_lacks_is_refused_by_name(number: float) -> None:
    with pytest.raises(CheckpointError, match=r"file: state\['a'\]\[1\] is -?(nan|inf)"):
        dump_json({"a": [0, number]}, "file")


def test_an_object_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match=r"state\['a'\] is a set"):
        dump_json({"a": {1}}, "file")


def test_a_key_that_would_turn_into_text_is_refused() -> None:
    with pytest.raises(CheckpointError, match="has the key 1; expected text"):
        dump_json({"a": {1: 2}}, "file")


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CheckpointError, match="levels deep, or holds itself"):
        plain_json(loop, "file")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"3",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda content: content[:20].decode("latin1"),
)
def test_content_that_is_no_plain_dict_is_refused(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="file: (is not valid JSON|holds a)"):
        parse_json(content, "file")
