"""Several actions for each state: in few calls of a network, and which of them are allowed."""

from collections.abc import Callable
from typing import Any

import numpy as np
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


def as_action_mask(action_mask: Any, shape: torch.Size, device: torch.device) -> Tensor:
    """A mask as a tensor of the shape of the numbers that it belongs to.

    Args:
        action_mask: True where an action is allowed, tensor, array or list, [..., n_actions] or [n_actions].
        shape: Shape that is asked for, [..., n_actions].
        device: Where it is to be.

    Returns:
        Of the given shape, bool.

    Raises:
        ValueError: If its shape does not fit.
    """
    mask = action_mask if torch.is_tensor(action_mask) else torch.from_numpy(np.array(action_mask, dtype=bool))
    if mask.shape != shape and mask.shape != shape[-1:]:  # in a trace sizes are tensors, which no set takes for equal
        expected = " or ".join(map(str, dict.fromkeys((tuple(shape), tuple(shape[-1:])))))
        raise ValueError(f"action_mask has shape {tuple(mask.shape)}, expected {expected}")
    return mask.to(device, torch.bool).expand(shape)


def without_forbidden(numbers: Tensor, action_mask: Tensor, least: float = -torch.inf) -> Tensor:
    """The same numbers with another in the place of those of forbidden actions.

    Args:
        numbers: Values or logits, [..., n_actions].
        action_mask: True where an action is allowed, [..., n_actions], bool. A row that allows nothing (a terminal
            state has nothing to choose) counts as allowing everything.
        least: What forbidden actions get.

    Returns:
        Of the shape of `numbers`.
    """
    return numbers.masked_fill(~(action_mask | ~action_mask.any(-1, keepdim=True)), least)
