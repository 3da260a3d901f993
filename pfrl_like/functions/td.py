"""Targets of temporal-difference learning."""

from collections.abc import Sequence

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


def truncated_mixture(quantiles: Sequence[Tensor], n_dropped: int) -> Tensor:
    """The quantiles of several critics together, sorted, without the largest ones (arXiv:2005.04269, eq. 10 and 11).

    Args:
        quantiles: Of each critic, [B, N].
        n_dropped: How many are left out for each critic, less than N.

    Returns:
        [B, C * (N - n_dropped)], rising.

    Raises:
        ValueError: If nothing would be left.
    """
    together = torch.cat(list(quantiles), dim=1)
    kept = together.shape[1] - n_dropped * len(quantiles)
    if kept < 1:
        raise ValueError(
            f"n_dropped is {n_dropped}, expected less than the {quantiles[0].shape[1]} quantiles of a critic"
        )
    return together.sort(dim=1).values[:, :kept]


def categorical_projection(z: Tensor, target_values: Tensor, probs: Tensor) -> Tensor:
    """Project distributions onto evenly spaced atoms (Bellemare et al. 2017, arXiv:1707.06887, eq. 7, Algorithm 1).

    The mass at a value goes to the two atoms around it, the nearer one getting more; mass beyond the ends goes to the
    end atoms. A value that lies on an atom gives all its mass to that one.

    Args:
        z: Atoms, rising and evenly spaced, [N], N at least 2.
        target_values: Where the mass is, [B, M].
        probs: How much of it, [B, M].

    Returns:
        Mass at each atom, [B, N]; each row has the sum of the same row of `probs`.
    """
    n_atoms = z.shape[0]
    position = (target_values.clamp(z[0], z[-1]) - z[0]) * ((n_atoms - 1) / (z[-1] - z[0]))
    # The last atom is the upper neighbour of the last interval. The index of NaN is cut off too: its mass stays NaN.
    index = position.long().clamp(0, n_atoms - 2)
    upper_mass = probs * (position - index).clamp(0, 1)  # rounding may lead out of the interval by a hair
    projected = upper_mass.new_zeros(probs.shape[0], n_atoms)
    return projected.scatter_add(1, index, probs - upper_mass).scatter_add(1, index + 1, upper_mass)


def even_fractions(n: int, like: Tensor) -> Tensor:
    """The fractions whose quantiles stand for a distribution best: (i + 0.5) / n (arXiv:1710.10044, lemma 2).

    Args:
        n: How many.
        like: Has their dtype and device.

    Returns:
        [n].
    """
    return (torch.arange(n, dtype=like.dtype, device=like.device) + 0.5) / n
