"""`once`: an attribute that is computed when it is first asked for."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")


class once(Generic[Value]):
    """`functools.cached_property` without the lock that it has in Python 3.11, which a compiler cannot trace.

    Args:
        function: Method that computes the attribute.
    """

    def __init__(self, function: Callable[[Any], Value]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Value:
        if instance is None:
            return self  # type: ignore[return-value]  # the class itself has no such attribute
        value = self.function(instance)
        setattr(instance, self.name, value)  # which is found before this
        return value
