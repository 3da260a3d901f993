"""Conversion of arguments that are integers, but are passed as floats, such as 1e6."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])


def takes_integral_floats(function: Function) -> Function:
    """Decorator that converts integral floats, such as 1e6, to integers if the parameter is annotated as an integer.

    Other floats are passed on: `check_counts` rejects them.

    Args:
        function: Function or constructor. Its annotations `int` and `int | None` must not be strings.
    """
    parameters = inspect.signature(function).parameters
    integers = {name for name, each in parameters.items() if each.annotation in (int, int | None)}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        names = [*parameters, *[""] * len(args)]
        args = tuple(integral(value) if name in integers else value for name, value in zip(names, args, strict=False))
        kwargs = {name: integral(value) if name in integers else value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return cast(Function, call)


def integral(value: Any) -> Any:
    """Return an integral float as an integer, and any other value as it is."""
    return int(value) if isinstance(value, float | np.floating) and value.is_integer() else value
