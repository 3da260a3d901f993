"""Comparison of numbers, wherever they are."""

from typing import Any

import numpy as np
from torch import Tensor


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
