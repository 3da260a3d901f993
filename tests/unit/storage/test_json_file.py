"""JSON that comes back as it went."""

import math
from typing import Any

import numpy as np
import pytest

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
        ({1}, r"state\['a'\] is a set"),
        ({1: 2}, "has the key 1; expected text"),
        (ITSELF, "levels deep, or holds itself"),
    ],
)
def test_what_json_lacks_is_refused_by_name(value: Any, message: str) -> None:
    with pytest.raises(CheckpointError, match=f"file: .*{message}"):
        dump_json({"a": value}, "file")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[1]", b"3", b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}', b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}', b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=lambda content: content[:20].decode("latin1"),
)  # fmt: skip
def test_content_that_is_no_plain_dict_is_refused(content: bytes) -> None:
    with pytest.raises(CheckpointError, match="file: (is not valid JSON|holds a)"):
        parse_json(content, "file")
