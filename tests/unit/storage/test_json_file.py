"""JSON that comes back as it went."""

import math
from typing import Any

import numpy as np
import pytest
from lab.hostile_files import json_texts

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.json_file import dump_json, parse_json


def test_numpy_values_become_numbers_and_lists() -> None:
    value = {"a": np.int64(3), "b": np.float32(0.5), "c": np.bool_(True), "d": np.arange(4).reshape(2, 2)}
    came = parse_json(dump_json(value, "file"), "file")
    assert came == {"a": 3, "b": 0.5, "c": True, "d": [[0, 1], [2, 3]]}


ITSELF: list[Any] = []
ITSELF.append(ITSELF)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0, math.nan], r"state\['a'\]\[1\] is nan"),
        ([0, math.inf], r"state\['a'\]\[1\] is inf"),
        ([0, -math.inf], r"state\['a'\]\[1\] is -inf"),
        ([0, np.float32("nan")], r"state\['a'\]\[1\] is nan"),
        ({1}, r"state\['a'\] is set"),
        ({1: 2}, "has the key 1; expected a string"),
        (ITSELF, "levels deep, or contains itself"),
    ],
)
def test_what_json_lacks_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=f"file: .*{message}"):
        dump_json({"a": value}, "file")


READABLE = ("object", "other types", "laughs", "half a pair")


@pytest.mark.parametrize("case", [case for case in json_texts() if case not in READABLE])
def test_content_that_is_no_plain_dict_is_refused(case: str) -> None:
    with pytest.raises(CheckpointError, match="file: (is not valid JSON|contains)"):
        parse_json(json_texts()[case], "file")
