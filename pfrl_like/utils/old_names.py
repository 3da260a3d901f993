"""Unknown names of modules: PFRL's private functions, which are in `legacy`, and errors for the others."""

import importlib
import sys
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


def missing_name(module: str, name: str, hint: str) -> Exception:
    """Return the exception for an unknown name of a package. Call this function only in the package's `__getattr__`.

    For classes in `from package import name`, it is an ImportError: Python replaces the text of an AttributeError.

    Args:
        module: The package.
        name: The unknown name.
        hint: End of the message.
    """
    text = f"module {module!r} has no attribute {name!r}{hint}"
    is_import = name[:1].isupper() and sys._getframe(2).f_code.co_name == "_handle_fromlist"
    return ImportError(text) if is_import else AttributeError(text, name=name)
