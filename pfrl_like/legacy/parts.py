"""PFRL's helpers of target networks, recurrent states, quantiles, explorers, Q-functions, batches and statistics."""

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.utils.copy_param import frozen_copy
from pfrl_like.utils.recurrent import mask_recurrent_state_at


def make_target_model_as_copy(model: nn.Module) -> nn.Module:
    """Return a copy of a module in evaluation mode. Its parameters require gradients where those of the module do.

    Args:
        model: The module.
    """
    copied = frozen_copy(model)
    for param, original in zip(copied.parameters(), model.parameters(), strict=True):
        param.requires_grad_(original.requires_grad)
    return copied


def _batch_reset_recurrent_states_when_episodes_end(
    batch_done: Sequence[bool], batch_reset: Sequence[bool], recurrent_states: Any
) -> Any:
    """Return recurrent states in which the states of ended episodes are zero.

    Args:
        batch_done: True for terminated episodes, [k].
        batch_reset: True for truncated episodes, [k].
        recurrent_states: Recurrent states of k environments.
    """
    ended = np.flatnonzero(np.logical_or(batch_done, batch_reset))
    return mask_recurrent_state_at(recurrent_states, ended) if len(ended) else recurrent_states


def _evaluate_psi_x_with_quantile_thresholds(
    psi_x: Tensor, phi: Callable[[Tensor], Tensor], f: Callable[[Tensor], Tensor], taus: Tensor
) -> QuantileDiscreteActionValue:
    """Return the quantiles f(psi(x) * phi(tau)) as action values.

    Args:
        psi_x: Features, [B, hidden].
        phi: Function from fractions [B, n] to their embedding [B, n, hidden].
        f: Function from [B * n, hidden] to quantiles [B * n, n_actions].
        taus: Fractions, [B, n].
    """
    rows = f((psi_x.unsqueeze(1) * phi(taus)).flatten(0, 1))
    return QuantileDiscreteActionValue(rows.view(*taus.shape, -1))


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


def _mean_or_nan(xs: Collection[float]) -> float:
    """Return the mean of numbers, NaN if there are none."""
    return float(sum(xs) / len(xs)) if len(xs) else math.nan
