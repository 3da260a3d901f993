"""Several items for each state in few calls of a network, whatever their number."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import map_nested

#: Rows of a call on a CPU: the layers' outputs for many more leave its caches, which costs a third more time.
_ROWS_IN_CACHE = 512


def apply_in_chunks(function: Callable[[Any, Tensor], Tensor], obs: Any, items: Tensor) -> Tensor:
    """What a function gives for M items in each of N states, [M, N, ...]; off a CPU it is called once.

    Args:
        function: Called with observations, [m * N, ...], and as many items, [m * N, ...]; it gives a row for each.
        obs: Observations, nested tensors [N, ...].
        items: The items, [M, N, ...].
    """
    m, n = items.shape[:2]
    tracing = torch.compiler.is_compiling() or torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    one_call = items.device.type != "cpu" or tracing
    size = m if one_call else max(1, _ROWS_IN_CACHE // max(1, n))
    parts = [items[i : i + size] for i in range(0, m, size)]
    given = torch.cat([function(repeat_rows(obs, part.shape[0]), part.flatten(0, 1)) for part in parts])
    return given.view(m, n, *given.shape[1:])


def repeat_rows(nested: Any, m: int) -> Any:
    """All rows m times, one copy after the other, tensors [m * N, ...] nested as they were."""
    return map_nested(lambda leaf: leaf.unsqueeze(0).expand(m, *leaf.shape).flatten(0, 1), nested)
