"""JSON that is read back exactly as written: no NaN, no repeated or non-text keys, bounded in size and depth."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pfrl_like.errors import CheckpointError
from pfrl_like.storage.atomic import read_bounded

_MAX_DEPTH = 32


def plain_json(
    value: Any, path: object, where: str = "state", depth: int = _MAX_DEPTH, kept: tuple[type, ...] = ()
) -> Any:
    """A copy of `value` in types that JSON has; NumPy numbers and arrays become numbers and lists.

    Args:
        value: Nested dicts, lists and tuples of None, bool, int, finite float, str and NumPy values.
        path: File or directory it is meant for, for the error.
        where: Name of the value, for the error.
        depth: Number of further levels allowed.
        kept: Further types, whose values stay as they are.

    Raises:
        CheckpointError: If it holds anything else; the reason says where.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or type(value) in (bool, int, str) or isinstance(value, kept):
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise CheckpointError(path, f"{where} is {value}, which JSON lacks; expected a finite number or None")
        return value
    if depth == 0:
        raise CheckpointError(path, f"{where} is nested more than {_MAX_DEPTH} levels deep, or holds itself")
    if isinstance(value, list | tuple):
        return [plain_json(item, path, f"{where}[{i}]", depth - 1, kept) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise CheckpointError(path, f"{where} has the key {key!r}; expected text")
        return {key: plain_json(item, path, f"{where}[{key!r:.80}]", depth - 1, kept) for key, item in value.items()}
    kind = type(value).__name__
    raise CheckpointError(path, f"{where} is {kind}; expected None, bool, int, float, str, list or dict")


def dump_json(value: Mapping[str, Any], path: object, limit: int | None = None) -> bytes:
    """JSON text of a dict, readable for people: one top-level field a line.

    Args:
        value: The dict.
        path: File or directory it is meant for, for the error.
        limit: Largest size in bytes, the `limit` of `read_json`; None for no limit.

    Raises:
        CheckpointError: If the text is longer, or the dict holds values that `plain_json` refuses.
    """
    fields = plain_json(value, path).items()
    lines = [f"{json.dumps(key)}: {json.dumps(item, allow_nan=False)}" for key, item in fields]
    content = ("{\n  " + ",\n  ".join(lines) + "\n}\n").encode()
    if limit is not None and len(content) > limit:
        reason = f"would take {len(content)} bytes for what it tells of itself, and could be read with {limit} at most"
        raise CheckpointError(path, f"cannot be written: it {reason}")
    return content


def parse_json(content: bytes, path: object) -> dict[str, Any]:
    """The dict that `content` holds.

    Raises:
        CheckpointError: If it is not JSON, not a dict, or has NaN, infinity or a key twice.
    """
    try:
        value = json.loads(
            content.decode("utf-8"), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_distinct_keys
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, f"is not valid JSON: {error}") from error
    if type(value) is not dict:
        raise CheckpointError(path, f"holds {type(value).__name__}; expected a JSON object")
    return value


def read_json(path: str, limit: int) -> dict[str, Any]:
    """The dict in a JSON file of at most `limit` bytes.

    Raises:
        CheckpointError: If the file cannot be read, is longer, is not JSON, not a dict, or has NaN, infinity or a key
            twice.
    """
    return parse_json(read_bounded(path, limit), path)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a finite number")
    return number


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice")
    return fields
