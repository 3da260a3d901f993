"""Compositions: expressions of named calls that can be evaluated, printed as Python, and stored as JSON.

`q = parts.nn.Linear(4, 2)` is a `Call`: it makes nothing yet. Its arguments are numbers, strings, lists, tuples, dicts,
other calls, attributes of calls such as `q.parameters()`, and objects of the caller, `Given("env")`.
"""

import dataclasses
import keyword
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pfrl_like.zoo.names import is_known, resolve

#: Limits of a stored composition.
_MAX_CALLS, _MAX_USES, _MAX_VALUES, _MAX_DEPTH = 4_096, 1 << 16, 1 << 18, 32
_MAX_TEXT, _MAX_INT = 1_024, (1 << 63) - 1
#: Attributes that a stored composition may read.
_ATTRIBUTES = {"parameters", "action_space", "sample"}


class SizeError(ValueError):
    """A composition is too large to be stored."""


class Expression:
    """Base class of expressions. Reading an attribute and calling give other expressions."""

    def __getattr__(self, name: str) -> "Expression":
        if name.startswith("_"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> "Call":
        return Call(self, tuple(map(as_value, args)), {name: as_value(value) for name, value in kwargs.items()})


@dataclasses.dataclass(eq=False)
class Name(Expression):
    """Public name of a package, as the script writes it: `nn.Linear`."""

    _path: str

    def __getattr__(self, name: str) -> "Name":
        if name.startswith("_"):
            raise AttributeError(name)
        return Name(f"{self._path}.{name}")


@dataclasses.dataclass(eq=False)
class Given(Expression):
    """Object of the caller. In the script, it is a parameter of this name."""

    _name: str


@dataclasses.dataclass(eq=False)
class Attribute(Expression):
    """Attribute of the result of another expression."""

    _owner: Expression
    _name: str


@dataclasses.dataclass(eq=False)
class Call(Expression):
    """A call. Its function is called once, however often the call is used in an expression.

    `_variable` is the name of the variable that has the result. If None, the call is written where it is used.
    """

    _function: Expression
    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    _variable: str | None = None


class _Parts:
    def __getattr__(self, name: str) -> Name:
        if name.startswith("_"):
            raise AttributeError(name)
        return Name(name)


#: The names of the table (see `names.py`), for example `parts.nn.Linear`.
parts: Any = _Parts()


def variable(name: str, value: Any) -> Any:
    """Give the result of a call a variable, if `value` is a call without one. Return `value`."""
    if isinstance(value, Call) and value._variable is None:
        value._variable = name
    return value


def as_value(value: Any) -> Any:
    """Return an argument of a call as one of the types that can be printed and stored.

    Raises:
        TypeError: If the argument has another type.
    """
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str | Expression):
        return value
    if isinstance(value, tuple | list):
        return type(value)(map(as_value, value))
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_value(each) for key, each in value.items()}
    raise TypeError(f"a composition cannot contain {value!r:.80} ({type(value).__name__}): use a Given")


def inner(value: Any) -> Iterator[Any]:
    """Yield the values of which a value consists, in the order in which Python evaluates them."""
    if isinstance(value, Call):
        yield value._function
        yield from value._args
        yield from value._kwargs.values()
    elif isinstance(value, Attribute):
        yield value._owner
    elif isinstance(value, tuple | list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def walk(value: Any) -> Iterator[Any]:
    """Yield a value and all values inside, each expression once, and each call after its arguments."""
    seen: set[int] = set()

    def visit(each: Any) -> Iterator[Any]:
        if id(each) not in seen:
            if isinstance(each, Expression):
                seen.add(id(each))
            for part in inner(each):
                yield from visit(part)
            yield each

    return visit(value)


def calls_of(value: Any) -> list[Call]:
    """Return all calls of a value, each once, after the calls of its arguments."""
    return [each for each in walk(value) if isinstance(each, Call)]


def givens_of(value: Any) -> list[str]:
    """Return the names of the caller's objects in a value."""
    return [*dict.fromkeys(each._name for each in walk(value) if isinstance(each, Given))]


def names_of(value: Any) -> list[str]:
    """Return the paths of the names in a value, sorted."""
    return sorted({each._path for each in walk(value) if isinstance(each, Name)})


def evaluate(value: Any, given: Mapping[str, Any]) -> Any:
    """Evaluate a value, in the order of the statements of its script.

    Args:
        value: The value.
        given: The caller's objects, by name.

    Raises:
        KeyError: If an object of the caller is missing.
    """
    results: dict[int, Any] = {}

    def result(each: Any) -> Any:
        if isinstance(each, Name):
            return resolve(each._path)
        if isinstance(each, Given):
            return given[each._name]
        if isinstance(each, Attribute):
            return getattr(result(each._owner), each._name)
        if isinstance(each, tuple | list):
            return type(each)(map(result, each))
        if isinstance(each, dict):
            return {key: result(part) for key, part in each.items()}
        if not isinstance(each, Call):
            return each
        if id(each) not in results:
            function = result(each._function)
            args = [result(part) for part in each._args]
            results[id(each)] = function(*args, **{name: result(part) for name, part in each._kwargs.items()})
        return results[id(each)]

    for call in calls_of(value):
        if call._variable is not None:
            result(call)
    return result(value)


def to_json(value: Any) -> dict[str, Any]:
    """Return a value as JSON: its calls, each after those that it uses, and the value itself."""
    calls = calls_of(value)
    index = {id(call): i for i, call in enumerate(calls)}

    def encoded(each: Any) -> Any:
        if isinstance(each, Call):
            return {"call": index[id(each)]}
        if isinstance(each, Name):
            return {"name": each._path}
        if isinstance(each, Given):
            return {"given": each._name}
        if isinstance(each, Attribute):
            return {"attribute": each._name, "of": encoded(each._owner)}
        if each is None:
            return {"none": True}
        if isinstance(each, float) and not math.isfinite(each):
            return {"float": str(each)}
        if isinstance(each, tuple):
            return {"tuple": [*map(encoded, each)]}
        if isinstance(each, list):
            return [*map(encoded, each)]
        return {"dict": {key: encoded(part) for key, part in each.items()}} if isinstance(each, dict) else each

    lines = [
        {"function": encoded(call._function), "args": [*map(encoded, call._args)]}
        | {"kwargs": {name: encoded(part) for name, part in call._kwargs.items()}}
        | ({} if call._variable is None else {"variable": call._variable})
        for call in calls
    ]
    return {"calls": lines, "value": encoded(value)}


def from_json(stored: Any) -> Any:
    """Return the value that `to_json` stored. Nothing is called or imported.

    Raises:
        ValueError: If `stored` is not a result of `to_json`, or contains a name that is not in the table or an
            attribute that is not one of the few that compositions read.
        SizeError: If `stored` is too large.
    """
    return _Reader().read(stored)


class _Reader:
    """Reads a stored composition.

    A call that is used several times counts each time, because modules that contain the same module many times make
    PyTorch's traversals slow: 40 modules, each with two uses of the one before, have 2**40 paths.
    """

    def __init__(self) -> None:
        self._calls: list[Call] = []
        self._measures: list[tuple[int, int]] = []  # depth of each call, and number of calls that it uses
        self._depth = self._n_uses = self._n_values = 0

    def read(self, stored: Any) -> Any:
        calls, value = _fields(stored, "calls", "value")
        if len(_typed(calls, list)) > _MAX_CALLS:
            raise SizeError(f"has {len(calls):,} calls, expected at most {_MAX_CALLS:,}")
        for line in calls:
            self._depth, self._n_uses = 0, 1
            self._calls.append(self._call(line))
            self._measures.append((self._depth + 1, self._n_uses))
        self._depth = self._n_uses = 0
        return self._value(value)

    def _call(self, line: Any) -> Call:
        optional = ("variable",) if isinstance(line, dict) and "variable" in line else ()
        function, args, kwargs, *variables = _fields(line, "function", "args", "kwargs", *optional)
        called = self._value(function)
        if not isinstance(called, Name | Attribute | Given):
            raise ValueError(f"calls {function!r:.80}, expected a name, an attribute or an object of the caller")
        values = tuple(self._value(part) for part in _typed(args, list))
        keywords = {_identifier(name): self._value(part) for name, part in _typed(kwargs, dict).items()}
        return Call(called, values, keywords, *map(_identifier, variables))

    def _value(self, stored: Any, depth: int = 0) -> Any:
        self._n_values += 1
        if self._n_values > _MAX_VALUES:
            raise SizeError(f"has more than {_MAX_VALUES:,} values")
        self._measure(depth, 0)
        if isinstance(stored, list):
            return [self._value(part, depth + 1) for part in stored]
        if isinstance(stored, str):
            return _text(stored)
        if isinstance(stored, int) and abs(stored) > _MAX_INT:
            raise ValueError(f"has an integer of {stored.bit_length()} bits, expected at most {_MAX_INT.bit_length()}")
        if isinstance(stored, bool | int | float):
            return stored
        if not isinstance(stored, dict) or len(stored) != (2 if "attribute" in stored else 1):
            raise ValueError(f"contains {stored!r:.80}, which a composition cannot contain")
        match stored:
            case {"call": int(index)} if not isinstance(index, bool) and 0 <= index < len(self._calls):
                inner_depth, n_uses = self._measures[index]
                self._measure(depth + inner_depth, n_uses)
                return self._calls[index]
            case {"attribute": str(name), "of": owner} if name in _ATTRIBUTES:
                return Attribute(self._owner(owner, depth + 1), name)
            case {"name": str(path)} if is_known(path):
                return Name(path)
            case {"given": str(name)}:
                return Given(_identifier(name))
            case {"none": True}:
                return None
            case {"float": "nan" | "inf" | "-inf" as text}:
                return float(text)
            case {"tuple": list(parts)}:
                return tuple(self._value(part, depth + 1) for part in parts)
            case {"dict": dict(parts)}:
                return {_text(key): self._value(part, depth + 1) for key, part in parts.items()}
        raise ValueError(f"contains {stored!r:.200}, which a composition cannot contain")

    def _owner(self, stored: Any, depth: int) -> Expression:
        owner = self._value(stored, depth)
        if not isinstance(owner, Call | Given | Attribute):
            raise ValueError(f"reads an attribute of {stored!r:.80}, expected a call or an object of the caller")
        return owner

    def _measure(self, depth: int, n_uses: int) -> None:
        self._depth = max(self._depth, depth)
        self._n_uses += n_uses
        if self._depth > _MAX_DEPTH:
            raise SizeError(f"is nested more than {_MAX_DEPTH} levels deep")
        if self._n_uses > _MAX_USES:
            raise SizeError(f"uses calls more than {_MAX_USES:,} times, those inside of calls counted each time")


def _fields(stored: Any, *names: str) -> list[Any]:
    """Return the values of a dict that has exactly these keys."""
    if not isinstance(stored, dict) or stored.keys() != {*names}:
        raise ValueError(f"contains {stored!r:.80}, expected a dict of {', '.join(names)}")
    return [stored[name] for name in names]


def _typed(stored: Any, kind: type) -> Any:
    if not isinstance(stored, kind):
        raise ValueError(f"contains {stored!r:.80}, expected a {kind.__name__}")
    return stored


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ValueError(f"contains {value!r:.80}, expected a text of at most {_MAX_TEXT:,} characters")
    return value


def _identifier(value: Any) -> str:
    """Return a name that a script can use: no Python code."""
    if not _text(value).isidentifier() or keyword.iskeyword(value) or value.startswith("__"):
        raise ValueError(f"contains {value!r:.80}, expected a name of a variable or argument")
    return str(value)
