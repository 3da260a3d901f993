"""Warnings that name the user's line of code, and warnings that come once a process."""

import inspect
import warnings
from collections.abc import Hashable

#: Keys of the warnings that `warn_once` has given in this process.
_WARNED: set[Hashable] = set()


def levels_to_the_caller() -> int:
    """How many calls above the function that asks is code that does not belong to this package."""
    frame, levels = inspect.currentframe(), 0
    while frame is not None and frame.f_globals.get("__name__", "").startswith("pfrl_like."):
        frame, levels = frame.f_back, levels + 1
    return levels


def warn_once(key: Hashable, text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line, the first time in this process that the key is given.

    Args:
        key: Identifies the warning, whatever numbers its text contains.
        text: The text of the warning.
        category: Class of the warning.
    """
    if key not in _WARNED:
        _WARNED.add(key)
        warnings.warn(text, category, stacklevel=levels_to_the_caller())
