"""Masks of allowed actions, and removal of forbidden actions from values and logits."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_action_mask(action_mask: Any, shape: torch.Size, device: torch.device) -> Tensor:
    """A mask as a bool tensor of the given shape.

    Args:
        action_mask: True where an action is allowed, tensor, array or list, [..., n_actions] or [n_actions].
        shape: Shape of the result, that of the numbers which the mask belongs to, [..., n_actions].
        device: Device of the result.

    Returns:
        The mask, of the given shape, bool.

    Raises:
        ValueError: If its shape does not fit.
    """
    mask = action_mask if torch.is_tensor(action_mask) else torch.from_numpy(np.array(action_mask, dtype=bool))
    if mask.shape != shape and mask.shape != shape[-1:]:  # in a trace sizes are tensors, which a set never merges
        expected = " or ".join(map(str, dict.fromkeys((tuple(shape), tuple(shape[-1:])))))
        raise ValueError(f"action_mask has shape {tuple(mask.shape)}, expected {expected}")
    return mask.to(device, torch.bool).expand(shape)


def without_forbidden(numbers: Tensor, action_mask: Tensor, least: float = -torch.inf) -> Tensor:
    """Numbers with those of forbidden actions replaced by `least`.

    Args:
        numbers: Values or logits, [..., n_actions].
        action_mask: True where an action is allowed, [..., n_actions], bool. A row that allows nothing, as in a
            terminal state, counts as allowing everything.
        least: Replacement for the numbers of forbidden actions.

    Returns:
        Numbers of the same shape.
    """
    return numbers.masked_fill(~(action_mask | ~action_mask.any(-1, keepdim=True)), least)
