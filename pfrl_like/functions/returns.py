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
    after = rows_after(lengths).to(reward.device)
    last = torch.arange(len(reward), device=reward.device)
    total, factor = reward, discount
    for _ in range(1, min(num_steps, int(lengths[0]))):
        goes_on = after[last] >= 0
        last = torch.where(goes_on, after[last], last)
        total = torch.where(goes_on, torch.addcmul(total, factor, reward[last]), total)
        factor = torch.where(goes_on, factor * discount[last], factor)
    return total, factor, last


def rows_after(lengths: Tensor) -> Tensor:
    """The row of the step after each row of sequences packed time first, [N], int64; -1 where a sequence ends.

    Args:
        lengths: Lengths of the sequences, [B], falling, on the host.
    """
    sizes = batch_sizes_of(lengths)
    row = torch.arange(int(sizes.sum()))
    following = torch.cat([sizes[1:], sizes.new_zeros(1)]).repeat_interleave(sizes)
    sequence = row - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return torch.where(sequence < following, row + sizes.repeat_interleave(sizes), -1)


def linked_lambda_returns(reward: Tensor, discount: Tensor, next_value: Tensor, after: Tensor, lambd: float) -> Tensor:
    """`lambda_returns` of steps in any order, each of which says which one comes after it.

    After round k a step's sum has 2**k terms, and `after` is the step so many steps on, so that all have all theirs in
    log2 of the longest episode (Hillis and Steele 1986, doi:10.1145/7902.7903).

    Args:
        reward: [M].
        discount: gamma, or 0 where the step ended in a terminal state, [M].
        next_value: Value of the state that each step led to, [M].
        after: Number of the step after each one, [M], int64; -1 where none is known.
        lambd: lambda, in [0, 1].

    Returns:
        [M]. Gradients flow into every argument of floats; the caller stops them.
    """
    trace = lambd * (after >= 0)
    total = reward + discount * next_value * (1 - trace)
    factor, after = discount * trace, after.clamp(min=0)  # a step that nothing follows has the factor 0
    for _ in range(len(reward).bit_length()):
        if factor.device.type == "cpu" and not factor.any():  # a GPU is not waited for
            break
        total = torch.addcmul(total, factor, total[after])
        factor, after = factor * factor[after], after[after]
    return total
