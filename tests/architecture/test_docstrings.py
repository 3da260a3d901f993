"""Everything public says what it is; an overriding method may leave that to the method it overrides."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[2] / "pfrl_like"
MODULES = [
    ".".join(("pfrl_like", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__main__.py"
]


def public_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Public functions and classes defined in a module, and the methods of those classes that are no Protocols."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for attribute in () if getattr(value, "_is_protocol", False) else vars(value):
                member = getattr(value, attribute)
                is_method = inspect.isroutine(member) or isinstance(member, property)
                if not attribute.startswith("_") and is_method and "<lambda>" not in repr(member):
                    yield f"{name}.{attribute}", member


def test_modules_have_docstrings() -> None:
    assert not [name for name in MODULES if not importlib.import_module(name).__doc__]


def test_public_names_have_docstrings() -> None:
    assert not [
        f"{name}.{member}"
        for name in MODULES
        for member, value in public_members(importlib.import_module(name))
        if not inspect.getdoc(value)
    ]
