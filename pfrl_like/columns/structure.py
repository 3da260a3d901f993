"""Structures of nested values: dicts and tuples that contain the number of each leaf. Functions that convert them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from pfrl_like.columns.leaves import describe

#: The number of a leaf, or a dict or tuple of structures.
Structure = int | dict[Any, Any] | tuple[Any, ...]


class ReadOnlyDict(dict[Any, Any]):
    """Read-only dict of values that were copied out of columns. A change would have no effect, and raises TypeError.

    Copies (`dict(d)`, `{**d}`, `copy.deepcopy(d)`) are ordinary dicts.

    Attributes:
        advice: Text in the error message that explains how to change the stored values.
    """

    advice: ClassVar[str] = "assign a whole observation, as in transition['state'] = {**transition['state'], ...}"

    def _reject_change(self, *args: Any, **kwargs: Any) -> Any:
        """Raise an error, because the dict is read-only.

        Raises:
            TypeError: Always.
        """
        raise TypeError(f"this dict, with keys {list(self)}, is a read-only copy of stored values; {self.advice}")

    __setitem__ = __delitem__ = __ior__ = _reject_change
    update = setdefault = pop = popitem = clear = _reject_change

    def __reduce__(self) -> Any:
        return dict, (dict(self),)

    def __copy__(self) -> dict[Any, Any]:
        return dict(self)


def structure_of(value: Any) -> tuple[Structure, list[Any]]:
    """Return the structure of a value and its leaves. Values that are neither mappings nor tuples are leaves."""
    leaves: list[Any] = []

    def visit(part: Any) -> Structure:
        if isinstance(part, Mapping):
            return {key: visit(item) for key, item in part.items()}
        if isinstance(part, tuple):
            return tuple(visit(item) for item in part)
        leaves.append(part)
        return len(leaves) - 1

    return visit(value), leaves


def flatten(value: Any, structure: Structure, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of a value, each with its name (`obs["camera"][0]`), in the order of the structure.

    Raises:
        ValueError: If the value has a different structure.
    """
    if isinstance(structure, dict):
        if not isinstance(value, Mapping) or value.keys() != structure.keys():
            got = f"a dict with keys {list(value)}" if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"{name}: got {got}, expected a dict with keys {list(structure)} as in the first step")
        for key, part in structure.items():
            yield from flatten(value[key], part, f"{name}[{key!r}]")
    elif isinstance(structure, tuple):
        if not isinstance(value, tuple) or len(value) != len(structure):
            got = f"{len(value)} items" if isinstance(value, tuple) else type(value).__name__
            raise ValueError(f"{name}: got {got}, expected a tuple of {len(structure)} items as in the first step")
        for i, part in enumerate(structure):
            yield from flatten(value[i], part, f"{name}[{i}]")
    elif isinstance(value, Mapping | tuple):
        raise ValueError(f"{name}: got {type(value).__name__}, expected a single value as in the first step")
    else:
        yield name, value


def map_structure(function: Callable[[int], Any], structure: Structure, nest: type[dict[Any, Any]] = dict) -> Any:
    """Return the structure with each leaf number i replaced by `function(i)`, and with dicts of the type `nest`."""
    if isinstance(structure, dict):
        parts = {key: map_structure(function, part, nest) for key, part in structure.items()}
        return parts if nest is dict else nest(parts)
    if isinstance(structure, tuple):
        return tuple(map_structure(function, part, nest) for part in structure)
    return function(structure)


def to_json(structure: Structure) -> Any:
    """Convert a structure to JSON: a number, `{"tuple": [...]}` or `{"dict": [[key, ...], ...]}`.

    Raises:
        ValueError: If a key of a dict is neither a string nor an integer.
    """
    if isinstance(structure, dict):
        for key in structure:
            if not isinstance(key, str | int):
                raise ValueError(f"the key {key!r} of a dict cannot be saved: expected a string or an integer")
        return {"dict": [[key, to_json(part)] for key, part in structure.items()]}
    if isinstance(structure, tuple):
        return {"tuple": [to_json(part) for part in structure]}
    return structure


def from_json(value: Any) -> Structure:
    """Return the structure that `to_json` converted."""
    if isinstance(value, int):
        return value
    if "tuple" in value:
        return tuple(from_json(part) for part in value["tuple"])
    return {key: from_json(part) for key, part in value["dict"]}


def rows_of(values: Any, count: int, name: str) -> list[Any]:
    """Convert a list, a tuple, a stacked array, or a dict or tuple of stacks to a list of `count` values.

    Raises:
        ValueError: If the number of values is not `count`.
    """
    if isinstance(values, Mapping):
        parts = {key: rows_of(part, count, f"{name}[{key!r}]") for key, part in values.items()}
        return [{key: part[i] for key, part in parts.items()} for i in range(count)]
    if isinstance(values, tuple) and len(values) != count:
        return list(zip(*(rows_of(part, count, f"{name}[{i}]") for i, part in enumerate(values)), strict=True))
    if not hasattr(values, "__len__") or len(values) != count:
        raise ValueError(f"{name}: got {describe(values)}, expected {count} values, one per environment")
    return list(values)
