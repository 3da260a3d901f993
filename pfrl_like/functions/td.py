"""Targets of temporal-difference learning."""

import torch
from torch import Tensor


def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """One- or n-step bootstrapped target, `reward + discount * next_value` (Sutton and Barto 2018, eq. 6.2, 7.1).

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 where the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].

    Returns:
        Targets, shape [B]. Gradients flow into every argument; the caller stops them.
    """
    return torch.addcmul(reward, discount, next_value)
