"""PFRL's helpers of explorers, Q-functions and batches."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pfrl_like.functions.bound_by_tanh import bound_by_tanh


def select_action_epsilon_greedily(
    epsilon: float, random_action_func: Callable[[], Any], greedy_action_func: Callable[[], Any]
) -> tuple[Any, bool]:
    """Select a random action with probability epsilon, otherwise the greedy action, by the global NumPy stream.

    Args:
        epsilon: Probability of a random action.
        random_action_func: Function without arguments that returns a random action.
        greedy_action_func: Function without arguments that returns the greedy action.

    Returns:
        The action, and True if it is the greedy action.
    """
    is_greedy = not np.random.rand() < epsilon
    return (greedy_action_func if is_greedy else random_action_func)(), is_greedy


def scale_by_tanh(x: Tensor, low: Any, high: Any) -> Tensor:
    """Map numbers to the range from `low` to `high` by tanh: (high - low) / 2 * tanh(x) + (high + low) / 2.

    Args:
        x: The numbers, [B, n].
        low: Lower bounds, an array or tensor, [n].
        high: Upper bounds, an array or tensor, [n].

    Returns:
        [B, n].
    """
    return bound_by_tanh(x, torch.as_tensor(low, device=x.device), torch.as_tensor(high, device=x.device))


def _to_recursive(batched: Any, device: torch.device | str) -> Any:
    """Move a tensor, or a list or tuple of tensors, to a device.

    Raises:
        TypeError: If `batched` is neither a tensor nor a list or tuple.
    """
    if isinstance(batched, Tensor):
        return batched.to(device)
    if isinstance(batched, list | tuple):
        moved = [tensor.to(device) for tensor in batched]
        return moved if isinstance(batched, list) else tuple(moved)
    raise TypeError(f"batched is {type(batched).__name__}, expected a tensor, or a list or tuple of tensors")
