"""Strict reading and writing of JSON dicts: NaN, infinity, repeated keys and keys other than strings are rejected."""

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
    """Return a copy of `value` that contains only JSON types. NumPy values are converted to numbers and lists.

    Args:
        value: Nested dicts, lists and tuples of None, bool, int, finite float, str and NumPy values.
        path: File or directory that the value is written to, for error messages.
        where: Name of the value, for error messages.
        depth: Maximum number of nested levels.
        kept: Additional types. Values of these types are returned unchanged.

    Raises:
        CheckpointError: If `value` contains other values. The message says where they are.
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
        raise CheckpointError(path, f"{where} is nested more than {_MAX_DEPTH} levels deep, or contains itself")
    if isinstance(value, list | tuple):
        return [plain_json(item, path, f"{where}[{i}]", depth - 1, kept) for i, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise CheckpointError(path, f"{where} has the key {key!r}; expected a string")
        return {key: plain_json(item, path, f"{where}[{key!r:.80}]", depth - 1, kept) for key, item in value.items()}
    raise CheckpointError(path, f"{where} is {type(value).__name__}; expected None, bool, int, float, str, list, dict")


def dump_json(value: Mapping[str, Any], path: object, limit: int | None = None) -> bytes:
    """Return the JSON text of a dict, with one top-level field per line.

    Args:
        value: The dict.
        path: File or directory that the dict is written to, for error messages.
        limit: Maximum size in bytes, the `limit` of `read_json`. If None, there is no limit.

    Raises:
        CheckpointError: If the text is longer, or if the dict contains values that `plain_json` rejects.
    """
    fields = plain_json(value, path).items()
    lines = [f"{json.dumps(key)}: {json.dumps(item, allow_nan=False)}" for key, item in fields]
    content = ("{\n  " + ",\n  ".join(lines) + "\n}\n").encode()
    if limit is not None and len(content) > limit:
        raise CheckpointError(path, f"cannot be written: {len(content)} bytes of JSON exceed the limit of {limit}")
    return content


def parse_json(content: bytes, path: object) -> dict[str, Any]:
    """Return the dict in a JSON text.

    Raises:
        CheckpointError: If `content` is not JSON or not a dict, or contains NaN, infinity or a repeated key.
    """
    try:
        value = json.loads(
            content.decode("utf-8"), parse_constant=_finite, parse_float=_finite, object_pairs_hook=_distinct_keys
        )
    except (ValueError, RecursionError) as error:
        raise CheckpointError(path, f"is not valid JSON: {error}") from error
    if type(value) is not dict:
        raise CheckpointError(path, f"contains {type(value).__name__}; expected a JSON object")
    return value


def read_json(path: str, limit: int) -> dict[str, Any]:
    """Return the dict in a JSON file of at most `limit` bytes.

    Raises:
        CheckpointError: If the file cannot be read, is longer than `limit`, is not JSON or not a dict, or contains NaN,
            infinity or a repeated key.
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
