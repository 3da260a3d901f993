"""Finds private functions of PFRL, which scripts import, at their old paths. The functions are in `legacy`."""

import importlib
from collections.abc import Callable
from typing import Any


def old_names(module: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module. It looks up unknown names in the table `legacy.names.OLD_NAMES`.

    `legacy` is imported when the first unknown name is looked up, because it imports this package's other modules.

    Args:
        module: Full name of the module, its `__name__`.

    Returns:
        A function from a name to the function in `legacy`. It raises an AttributeError if the table has no such name.
    """
    package, _, path = module.partition(".")

    def find(name: str) -> Any:
        if not name.startswith("__"):
            table = importlib.import_module(f"{package}.legacy.names").OLD_NAMES
            if place := table.get(path, {}).get(name):
                return getattr(importlib.import_module(f"{package}.{place}"), name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name)

    return find
