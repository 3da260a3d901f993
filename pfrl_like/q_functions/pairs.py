"""Observation and action, as Q-functions of both are called with them: two arguments, or one pair."""

from typing import Any

import torch
from torch import Tensor


def pair(x: Any, a: Any = None) -> tuple[Any, Any]:
    """The observations and the actions.

    Raises:
        TypeError: If there are no actions.
    """
    if a is not None:
        return x, a
    if isinstance(x, tuple) and len(x) == 2:
        return x
    raise TypeError(f"expected an observation and an action, or a pair of both, got one {type(x).__name__}")


def side_by_side(x: Any, a: Any = None) -> Tensor:
    """The same as one row each, [B, n].

    Raises:
        TypeError: If there are no actions.
    """
    return torch.cat(pair(x, a), dim=-1)
