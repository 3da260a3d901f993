"""`close_all`: what a run has opened is closed, whatever fails."""

from collections.abc import Iterable
from typing import Any


def close_all(things: Iterable[Any]) -> None:
    """Call the method `close` of each of several things, if it has one, and raise the first error afterwards."""
    errors = []
    for thing in things:
        close = getattr(thing, "close", None)
        if callable(close):
            try:
                close()
            except Exception as error:
                errors.append(error)
    if errors:
        raise errors[0]
