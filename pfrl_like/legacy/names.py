"""Table of the functions and classes in `legacy`."""

import tomllib
from collections.abc import Mapping
from pathlib import Path

_TABLES: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("names.toml").read_text(encoding="utf-8")
)
#: Path of PFRL's module -> name -> module that contains the function, both below the package. A module in this table
#: ends with the line `__getattr__ = old_names(__name__)`.
OLD_NAMES: Mapping[str, Mapping[str, str]] = {
    path: {name: f"legacy.{module}" for module, names in table.items() for name in names.split()}
    for path, table in _TABLES.items()
}
