"""Functions for `__repr__` methods. They copy no tensors from a GPU and open no files."""

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def never_raising(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """Decorate a `__repr__` so that it returns only the class name if an error is raised."""

    @functools.wraps(text)
    def safe(self: Any) -> str:
        try:
            return text(self)
        except Exception:
            return f"{type(self).__name__}(...)"

    return safe


def dtype_and_shape(array: Any) -> str:
    """Return the dtype and shape of an array, a tensor or a column as text, for example "float32[3, 2]"."""
    return f"{array.dtype}{list(array.shape)}".removeprefix("torch.")


def shown(value: Any) -> str:
    """Return a value as one short line. Tensors and large arrays are replaced by their dtype and shape."""
    if isinstance(value, torch.Tensor) or (isinstance(value, np.ndarray) and value.size > 8):
        return dtype_and_shape(value)
    if isinstance(value, list | tuple):
        value = f"[{', '.join(map(shown, value))}]"
    elif isinstance(value, float):
        value = float(f"{value:.6g}")
    text = str(value) if isinstance(value, np.ndarray | np.generic | str) else never_raising(repr)(value)
    return textwrap.shorten(text, 200, placeholder=" ...")


def with_arguments(owner: Any, *more: str) -> str:
    """Return a text with the class name of an object and its constructor arguments.

    The values are read from attributes with the names of the arguments.

    Only numbers, strings and arrays are shown. None, functions, loggers and other objects are omitted.

    Args:
        owner: The object.
        more: Names of additional attributes, which are shown first.
    """
    kinds = (int, float, str, list, tuple, np.generic, np.ndarray, torch.Tensor)
    names = dict.fromkeys((*more, *inspect.signature(type(owner)).parameters))
    values = {name: value for name in names if isinstance(value := vars(owner).get(name), kinds)}
    return f"{type(owner).__name__}({', '.join(f'{name}={shown(value)}' for name, value in values.items())})"
