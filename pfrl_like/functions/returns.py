"""Returns over several steps of sequences."""

import torch
from torch import Tensor

from pfrl_like.utils.recurrent import batch_sizes_of


def n_step_returns(reward: Tensor, discount: Tensor, lengths: Tensor, num_steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sums of rewards within sequences, and where to bootstrap from (Sutton and Barto 2018, eq. 7.1).

    Where fewer than n steps of a sequence are left, the k that are left are summed up, and the discount is gamma**k.

    Args:
        reward: Reward of each step, [N], float, packed time first.
        discount: gamma, or 0 where the step ended in a terminal state, [N], float.
        lengths: Lengths of the sequences, [B], falling, on the host.
        num_steps: n, at least 1.

    Returns:
        The sum of up to n discounted rewards from each step on, [N]; the discount of what comes after them, [N]; and
        the row of their last step, [N], int64.

    Raises:
        ValueError: If `num_steps` is less than 1, or `lengths` is not positive and falling or does not add up to N.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps is {num_steps!r}, expected at least 1")
    if int(lengths.sum()) != len(reward):
        raise ValueError(f"lengths add up to {int(lengths.sum())}, expected {len(reward)} as there are rewards")
    sizes = batch_sizes_of(lengths)
    row = torch.arange(len(reward))
    after = row + sizes.repeat_interleave(sizes)  # the row of the next step, where the sequence has one
    has_next = torch.cat([sizes[1:], sizes.new_zeros(1)]).repeat_interleave(sizes)
    has_next = row - (sizes.cumsum(0) - sizes).repeat_interleave(sizes) < has_next
    after, has_next = after.to(reward.device), has_next.to(reward.device)
    last = row.to(reward.device)
    total, factor = reward, discount
    for _ in range(1, min(num_steps, len(sizes))):
        goes_on = has_next[last]
        last = torch.where(goes_on, after[last], last)
        total = torch.where(goes_on, torch.addcmul(total, factor, reward[last]), total)
        factor = torch.where(goes_on, factor * discount[last], factor)
    return total, factor, last
