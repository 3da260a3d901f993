"""Texts for `repr`, made of plain attributes: no value of a tensor is read and no file is opened."""

import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def never_raising(text: Callable[[Any], str]) -> Callable[[Any], str]:
    """Decorate a `__repr__` so that it shows only the class where it would raise, as for a half-built object."""

    @functools.wraps(text)
    def safe(self: Any) -> str:
        try:
            return text(self)
        except Exception:
            return f"{type(self).__name__}(...)"

    return safe


def dtype_and_shape(array: Any) -> str:
    """For instance "float32[3, 2]" for an array, a tensor or a column of them."""
    return f"{array.dtype}{list(array.shape)}".removeprefix("torch.")


def shown(value: Any) -> str:
    """One line that shows a value, cut if it is long; tensors and larger arrays are shown by dtype and shape."""
    if isinstance(value, torch.Tensor) or (isinstance(value, np.ndarray) and value.size > 8):
        return dtype_and_shape(value)
    if isinstance(value, list | tuple):
        value = f"[{', '.join(map(shown, value))}]"
    elif isinstance(value, float):
        value = float(f"{value:.6g}")
    text = str(value) if isinstance(value, np.ndarray | np.generic | str) else never_raising(repr)(value)
    return textwrap.shorten(text, 200, placeholder=" ...")


def with_arguments(owner: Any, *more: str) -> str:
    """The class of an object and its attributes that bear the names of constructor arguments.

    Arguments that are None or no numbers, texts or arrays, such as functions and loggers, are left out.

    Args:
        owner: The object.
        more: Names of further attributes, which come first.
    """
    kinds = (int, float, str, list, tuple, np.generic, np.ndarray, torch.Tensor)
    names = dict.fromkeys((*more, *inspect.signature(type(owner)).parameters))
    values = {name: value for name in names if isinstance(value := vars(owner).get(name), kinds)}
    return f"{type(owner).__name__}({', '.join(f'{name}={shown(value)}' for name, value in values.items())})"
