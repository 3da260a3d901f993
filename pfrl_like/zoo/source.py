"""Compositions as Python source."""

from typing import Any

from pfrl_like.zoo.composition import Attribute, Call, Given, Name, calls_of
from pfrl_like.zoo.names import import_of

_WIDTH = 110


def statements(value: Any, last: str) -> list[str]:
    """Return the lines that evaluate a value: one assignment for each variable, and the last statement.

    Args:
        value: The value.
        last: Start of the last statement, for example "return " or "env = ".
    """
    lines = []
    for call in calls_of(value):
        if call._variable is not None and call is not value:
            lines += _assignment(f"{call._variable} = ", call)
    return lines + _assignment(last, value)


def _assignment(start: str, value: Any) -> list[str]:
    return (start + expression(value, top=True, width=_WIDTH - len(start))).split("\n")


def expression(value: Any, *, top: bool = False, width: int = _WIDTH) -> str:
    """Return a value as an expression. Long expressions have several lines.

    Args:
        value: The value.
        top: True to write a call itself instead of its variable.
        width: Maximum length of a line, in characters.
    """
    if isinstance(value, Name):
        return import_of(value._path).text
    if isinstance(value, Given):
        return value._name
    if isinstance(value, Attribute):
        return f"{expression(value._owner)}.{value._name}"
    if isinstance(value, Call):
        if value._variable is not None and not top:
            return value._variable
        named = [(f"{name}=", part) for name, part in value._kwargs.items()]
        return _joined(f"{expression(value._function)}(", [("", part) for part in value._args] + named, ")", width)
    if isinstance(value, list):
        return _joined("[", [("", part) for part in value], "]", width)
    if isinstance(value, tuple):
        return _joined("(", [("", part) for part in value], ",)" if len(value) == 1 else ")", width)
    if isinstance(value, dict):
        return _joined("{", [(f"{_literal(key)}: ", part) for key, part in value.items()], "}", width)
    return _literal(value)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        quoted = repr(value)
        return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted
    if isinstance(value, float) and value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:_}" if abs(value) >= 10_000 else str(value)
    return repr(value)


def _joined(start: str, items: list[tuple[str, Any]], end: str, width: int) -> str:
    """Return the items on one line if they fit. Else each call has a line of its own, and other items fill lines."""
    line = f"{start}{', '.join(before + expression(value) for before, value in items)}{end}"
    if not items or (len(line) <= width and "\n" not in line):
        return line
    lines: list[str] = []
    is_open = False  # True if the last line may take another item
    for before, value in items:
        item = before + expression(value, width=width - 5 - len(before)) + ","
        fills = not isinstance(value, Call) or value._variable is not None
        if is_open and fills and "\n" not in item and len(lines[-1]) + len(item) < width - 4:
            lines[-1] += f" {item}"
        else:
            lines += item.split("\n")
        is_open = fills and "\n" not in item
    inside = "\n".join(f"    {line}" for line in lines)
    return f"{start}\n{inside}\n{end.removeprefix(',')}"
