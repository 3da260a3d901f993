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


def advantage_learning_target(
    reward: Tensor, discount: Tensor, next_value: Tensor, action_gap: Tensor, alpha: float
) -> Tensor:
    """Target of advantage learning, `td_target - alpha * action_gap` (Bellemare et al. 2016, arXiv:1512.04860, T_AL).

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 where the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].
        action_gap: max_b Q(s, b) - Q(s, a) of the action taken, shape [B].
        alpha: Weight of the gap; the greedy policy stays optimal for those in [0, 1).

    Returns:
        Targets, shape [B].
    """
    return td_target(reward, discount, next_value) - alpha * action_gap


def persistent_advantage_learning_target(
    reward: Tensor,
    discount: Tensor,
    next_value: Tensor,
    action_gap: Tensor,
    next_action_gap: Tensor,
    alpha: float,
) -> Tensor:
    """Target of persistent advantage learning (Bellemare et al. 2016, arXiv:1512.04860, section 4).

    `max(td_target - alpha * action_gap, td_target - alpha * next_action_gap)`: an action that is also good in the next
    state is devalued less. A terminal state is worth 0 whatever is done there, so that it has no gap.

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 where the n steps ended in a terminal state, shape [B].
        next_value: Value of the state after the n steps, shape [B].
        action_gap: max_b Q(s, b) - Q(s, a) of the action taken, shape [B].
        next_action_gap: max_b Q(s', b) - Q(s', a) of the same action, shape [B]; infinite where it is forbidden in s'.
        alpha: Weight of the gap; the greedy policy stays optimal for those in [0, 1).

    Returns:
        Targets, shape [B].
    """
    gap = torch.minimum(action_gap, next_action_gap.masked_fill(discount == 0, 0.0))
    return td_target(reward, discount, next_value) - alpha * gap


def dynamic_policy_programming_target(
    reward: Tensor, discount: Tensor, next_mean: Tensor, value: Tensor, mean: Tensor
) -> Tensor:
    """Target of dynamic policy programming, `value + reward + discount * next_mean - mean`.

    (Azar et al. 2012, arXiv:1004.2027, where the values are called action preferences.)

    Args:
        reward: Sum of the n discounted rewards, shape [B], float32.
        discount: gamma**n, or 0 where the n steps ended in a terminal state, shape [B].
        next_mean: M Q(s'), the mean of Q(s', .) under the probabilities softmax(eta * Q(s', .)), shape [B].
        value: Q(s, a) of the action taken, shape [B].
        mean: M Q(s), shape [B].

    Returns:
        Targets, shape [B].
    """
    return value + td_target(reward, discount, next_mean) - mean
