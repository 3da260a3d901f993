"""Action masks, and masking of values and logits."""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def as_action_mask(action_mask: Any, shape: torch.Size, device: torch.device) -> Tensor:
    """Return a mask as a bool tensor of the given shape.

    Args:
        action_mask: True for allowed actions, a tensor, array or list [..., n_actions] or [n_actions].
        shape: Shape of the result, which is the shape [..., n_actions] of the values to mask.
        device: Device of the result.

    Returns:
        The mask, a bool tensor of the given shape.

    Raises:
        ValueError: If the shape of `action_mask` does not match.
    """
    mask = action_mask if torch.is_tensor(action_mask) else torch.from_numpy(np.array(action_mask, dtype=bool))
    if mask.shape != shape and mask.shape != shape[-1:]:  # not a set, because sizes are tensors in a trace
        expected = " or ".join(map(str, dict.fromkeys((tuple(shape), tuple(shape[-1:])))))
        raise ValueError(f"action_mask has shape {tuple(mask.shape)}, expected {expected}")
    return mask.to(device, torch.bool).expand(shape)


def without_forbidden(numbers: Tensor, action_mask: Tensor, least: float = -torch.inf) -> Tensor:
    """Replace the numbers of masked actions by `least`.

    Args:
        numbers: Values or logits, [..., n_actions].
        action_mask: True for allowed actions, [..., n_actions], bool. A row without allowed actions, for example for a
            terminal state, allows all actions.
        least: Replacement for the numbers of masked actions.

    Returns:
        Numbers of the same shape.
    """
    return numbers.masked_fill(~(action_mask | ~action_mask.any(-1, keepdim=True)), least)
