"""Action masks, and masking of values and logits."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_action_mask(action_mask: Any, shape: torch.Size, device: torch.device) -> Tensor:
    """Convert an action mask to a bool tensor.

    Args:
        action_mask: True for allowed actions, a tensor, array or list [..., n_actions] or [n_actions].
        shape: Shape of the result, [..., n_actions].
        device: Device of the result.

    Returns:
        The mask, a bool tensor of this shape.

    Raises:
        ValueError: If the shape of `action_mask` does not match.
    """
    mask = action_mask if torch.is_tensor(action_mask) else torch.from_numpy(np.array(action_mask, dtype=bool))
    if mask.shape != shape and mask.shape != shape[-1:]:  # no `in`, because sizes are tensors in a trace
        expected = " or ".join(map(str, dict.fromkeys((tuple(shape), tuple(shape[-1:])))))
        raise ValueError(f"action_mask has shape {tuple(mask.shape)}, expected {expected}")
    return mask.to(device, torch.bool).expand(shape)


def without_forbidden(numbers: Tensor, action_mask: Tensor, least: float = -torch.inf) -> Tensor:
    """Replace the numbers of masked actions by `least`.

    Args:
        numbers: Values or logits, [..., n_actions].
        action_mask: True for allowed actions, [..., n_actions], bool. If a row allows no action, for example in a
            terminal state, all its actions are treated as allowed.
        least: Number that replaces the numbers of masked actions.

    Returns:
        Numbers of the same shape.
    """
    return numbers.masked_fill(~(action_mask | ~action_mask.any(-1, keepdim=True)), least)
