"""How a check fails, and when two states are the same."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def require(holds: Any, sentence: str) -> None:
    """Fail with a sentence, under `python -O` too.

    Raises:
        AssertionError: If `holds` is false.
    """
    if not holds:
        raise AssertionError(sentence)


def difference(first: Any, second: Any, name: str = "", *, exact: bool = True) -> str | None:
    """Where two nested states differ; None if they are the same.

    Args:
        first: Dicts, lists and tuples of tensors, arrays, numbers, text and None.
        second: Likewise.
        name: What the states are called in the answer.
        exact: Bit for bit; otherwise up to the rounding of a GPU, whose sums have no fixed order.
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        if first.keys() != second.keys():
            return f"{name} has {sorted(map(str, first.keys() ^ second.keys()))} in one of the two only"
        pairs = [(f"{name}[{key!r}]", first[key], second[key]) for key in first]
    elif isinstance(first, list | tuple) and isinstance(second, list | tuple):
        if len(first) != len(second):
            return f"{name} has the lengths {len(first)} and {len(second)}"
        pairs = [(f"{name}[{i}]", one, other) for i, (one, other) in enumerate(zip(first, second, strict=True))]
    elif _same_leaf(first, second, exact):
        return None
    else:
        return f"{name} is {_brief(first)} and {_brief(second)}"
    all_found = (difference(one, other, label, exact=exact) for label, one, other in pairs)
    return next((found for found in all_found if found is not None), None)


def _same_leaf(first: Any, second: Any, exact: bool) -> bool:
    if isinstance(first, torch.Tensor | np.ndarray | np.generic | float):
        one, other = (np.asarray(x.detach().cpu() if isinstance(x, torch.Tensor) else x) for x in (first, second))
        if one.dtype == object or other.dtype == object:
            return type(first) is type(second) and bool(np.all(one == other))
        if one.shape != other.shape:
            return False
        if exact or one.dtype.kind not in "fc":
            return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
        return np.allclose(one, other, rtol=1e-3, atol=1e-5, equal_nan=True)
    return type(first) is type(second) and bool(first == second)


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 100 else text[:97] + "..."


def torch_assert_allclose(actual: Any, desired: Any, *args: Any, **kwargs: Any) -> None:
    """`numpy.testing.assert_allclose` that takes tensors, too.

    Args:
        actual: Tensor on any device, array, number, or nested lists and tuples of such, of one shape.
        desired: Likewise.
        *args: Further arguments of `numpy.testing.assert_allclose`: `rtol`, `atol`, ...
        **kwargs: Likewise, by name.

    Raises:
        AssertionError: If the shapes differ, or numbers by more than the tolerance.
    """
    np.testing.assert_allclose(_as_numpy(actual), _as_numpy(desired), *args, **kwargs)


def _as_numpy(values: Any) -> Any:
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    if isinstance(values, list | tuple):
        return np.asarray([_as_numpy(value) for value in values])
    return values
