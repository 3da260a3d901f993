"""The table of names that compositions may contain. No other name is ever imported."""

import functools
import importlib
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

#: Names by module: those of which agents are composed, and those that only scripts contain.
_NAMES = tomllib.loads(Path(__file__).with_name("names.toml").read_text(encoding="utf-8"))


class Import(NamedTuple):
    """Import of a name in a script, and its text.

    Attributes:
        module: Module that is imported, for example "torch".
        imported: Name that is imported from the module. None if the module itself is imported.
        text: The name in expressions.
    """

    module: str
    imported: str | None
    text: str


def _import(module: str, name: str) -> Import:
    if module == "pfrl_like.nn":  # "nn" is torch.nn
        return Import(module, name, name)
    package, _, last = module.rpartition(".")
    return Import(package, last, f"{last}.{name}") if package else Import(module, None, f"{module}.{name}")


def _path(module: str, name: str) -> str:
    """Return the path of a name in `parts`: without "pfrl_like" or "torch", except for `pfrl_like.nn`."""
    return f"{'pfrl_like.nn' if module == 'pfrl_like.nn' else module.rpartition('.')[2]}.{name}"


_TABLE = {
    _path(module, name): (module, name)
    for table in _NAMES.values()
    for module, names in table.items()
    for name in names.split()
}
_STORABLE = {_path(module, name) for module, names in _NAMES["agents"].items() for name in names.split()}


def import_of(path: str) -> Import:
    """Return how a script imports and writes a name of the table.

    Raises:
        ValueError: If the name is not in the table.
    """
    return _import(*_entry(path))


def is_known(path: str) -> bool:
    """True if the table has this name."""
    return path in _TABLE


def is_storable(path: str) -> bool:
    """True if a stored composition may contain this name."""
    return path in _STORABLE


def resolve(path: str) -> Any:
    """Import and return a name of the table.

    Raises:
        ValueError: If the name is not in the table.
    """
    module, name = _entry(path)
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def _entry(path: str) -> tuple[str, str]:
    if path not in _TABLE:
        raise ValueError(f"{path!r} is not a name that a composition can contain")
    return _TABLE[path]
