"""Masks of allowed actions, and numbers of which those of forbidden ones are taken out."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


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
