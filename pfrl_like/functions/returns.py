"""Returns and advantages over several steps, for sequences and rollouts."""

import torch
from torch import Tensor

from pfrl_like.utils.recurrent import batch_sizes_of


def n_step_returns(reward: Tensor, discount: Tensor, lengths: Tensor, num_steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """Compute n-step returns within sequences (Sutton and Barto 2018, eq. 7.1).

    If a sequence ends after k < n steps, the rewards of these k steps are summed, and the discount is gamma**k.

    Args:
        reward: Reward of each step, [N], float, in the order of a `PackedSequence`.
        discount: gamma, or 0 if the step ended in a terminal state, [N], float.
        lengths: Lengths of the sequences, [B], descending, on the CPU.
        num_steps: n, at least 1.

    Returns:
        Three tensors [N]: for each step, the discounted sum of the rewards of up to n steps that begin with this step;
        the discount factor of the value after these steps; the row of the last of these steps (int64).

    Raises:
        ValueError: If `num_steps` is below 1, or if `lengths` is not positive and descending or its sum is not N.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps is {num_steps!r}, expected at least 1")
    if int(lengths.sum()) != len(reward):
        raise ValueError(f"lengths add up to {int(lengths.sum())}, expected {len(reward)}, the number of rewards")
    after = rows_after(lengths).to(reward.device)
    last = torch.arange(len(reward), device=reward.device)
    total, factor = reward, discount
    for _ in range(1, min(num_steps, int(lengths[0]))):
        has_next = after[last] >= 0
        last = torch.where(has_next, after[last], last)
        total = torch.where(has_next, torch.addcmul(total, factor, reward[last]), total)
        factor = torch.where(has_next, factor * discount[last], factor)
    return total, factor, last


def rows_after(lengths: Tensor) -> Tensor:
    """Return the row of each step's next step in packed sequences, [N], int64. It is -1 for a sequence's last step.

    Args:
        lengths: Lengths of the sequences, [B], descending, on the CPU.
    """
    sizes = batch_sizes_of(lengths)
    row = torch.arange(int(sizes.sum()))
    next_size = torch.cat([sizes[1:], sizes.new_zeros(1)]).repeat_interleave(sizes)
    sequence = row - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)
    return torch.where(sequence < next_size, row + sizes.repeat_interleave(sizes), -1)


def linked_lambda_returns(reward: Tensor, discount: Tensor, next_value: Tensor, after: Tensor, lambd: float) -> Tensor:
    """Compute the lambda-returns (see `lambda_returns`) of steps in any order. `after` links each step to the next.

    The return of a step is a sum with one term for each later step. After round k of the loop, each sum has 2**k terms,
    and `after` contains the index of the step that is 2**k steps later. All sums are complete after log2(length of the
    longest episode) rounds (Hillis and Steele 1986, doi:10.1145/7902.7903).

    Args:
        reward: Reward of each step, [M].
        discount: gamma, or 0 if the step ended in a terminal state, [M].
        next_value: Value of the state after each step, [M].
        after: Index of each step's next step, [M], int64. -1 if the next step is not among the M steps.
        lambd: lambda, in [0, 1].

    Returns:
        Returns, [M]. Gradients flow into every floating-point argument. The caller detaches the returns.
    """
    trace = lambd * (after >= 0)
    total = reward + discount * next_value * (1 - trace)
    factor, after = discount * trace, after.clamp(min=0)  # a step without a next step has the factor 0
    for _ in range(len(reward).bit_length()):
        if factor.device.type == "cpu" and not factor.any():  # on a GPU, `any` would synchronise
            break
        total = torch.addcmul(total, factor, total[after])
        factor, after = factor * factor[after], after[after]
    return total


def gae(reward: Tensor, discount: Tensor, value: Tensor, next_value: Tensor, continues: Tensor, lambd: float) -> Tensor:
    """Compute generalised advantage estimates (Schulman et al. 2015, arXiv:1506.02438, eq. 16).

    A_t = delta_t + discount_t * lambd * A_{t+1}, with delta_t = reward_t + discount_t * next_value_t - value_t.

    Args:
        reward: Reward of each step, [T, B].
        discount: gamma, or 0 if the step ended in a terminal state, [T, B].
        value: Value of the state before each step, [T, B].
        next_value: Value of the state after each step, [T, B].
        continues: True if the next row continues the same episode, [T, B], bool.
        lambd: lambda, in [0, 1].

    Returns:
        [T, B], or [T] if all arguments have the shape [T].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, value=value, next_value=next_value, continues=continues)
    delta = torch.addcmul(reward, discount, next_value) - value
    # the function ignores the last factor
    return _linear_recurrence(delta, lambd * discount * continues.to(reward.dtype))


def lambda_returns(reward: Tensor, discount: Tensor, next_value: Tensor, continues: Tensor, lambd: float) -> Tensor:
    """Compute the lambda-returns: weighted averages of the n-step returns (Sutton and Barto 2018, eq. 12.18).

    G_t = reward_t + discount_t * ((1 - lambd) * next_value_t + lambd * G_{t+1}). If the next row does not continue the
    episode, next_value_t replaces G_{t+1}. If lambd is 1, G_t is the discounted sum of all later rewards of the
    episode, plus the discounted value after its last step.

    Args:
        reward: Reward of each step, [T, B].
        discount: gamma, or 0 if the step ended in a terminal state, [T, B].
        next_value: Value of the state after each step, [T, B].
        continues: True if the next row continues the same episode, [T, B], bool.
        lambd: lambda, in [0, 1].

    Returns:
        [T, B], or [T] if all arguments have the shape [T].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, next_value=next_value, continues=continues)
    trace = lambd * _continues(continues, reward)
    return _linear_recurrence(reward + discount * next_value * (1 - trace), discount * trace)


def vtrace(
    reward: Tensor,
    discount: Tensor,
    value: Tensor,
    next_value: Tensor,
    ratio: Tensor,
    continues: Tensor,
    lambd: float = 1.0,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Compute V-trace targets and advantages of off-policy steps (Espeholt et al. 2018, arXiv:1802.01561, eq. 1).

    v_t = value_t + rho_t * delta_t + discount_t * c_t * (v_{t+1} - value_{t+1}), with delta_t as in `gae`, rho_t =
    min(rho_bar, ratio_t) and c_t = lambd * min(c_bar, ratio_t). The advantage (section 4.2) is rho_t * (reward_t +
    discount_t * v_{t+1} - value_t). If the next row does not continue the episode, next_value_t replaces v_{t+1}.

    Args:
        reward: Reward of each step, [T, B].
        discount: gamma, or 0 if the step ended in a terminal state, [T, B].
        value: Value of the state before each step, [T, B].
        next_value: Value of the state after each step, [T, B].
        ratio: Importance ratio: probability of the action under the target policy, divided by its probability under the
            behaviour policy, [T, B].
        continues: True if the next row continues the same episode, [T, B], bool.
        lambd: lambda, in [0, 1].
        rho_bar: Maximum of rho_t, the weight of a step's error. If infinite, there is no limit.
        c_bar: Maximum of the ratio in c_t, the weight of the errors of later steps. If infinite, there is no limit.

    Returns:
        Value targets and advantages, both [T, B].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, value=value, next_value=next_value, ratio=ratio, continues=continues)
    has_next = _continues(continues, reward)
    rho = ratio.clamp(max=rho_bar)
    error = rho * (torch.addcmul(reward, discount, next_value) - value)
    correction = _linear_recurrence(error, discount * has_next * ratio.clamp(max=c_bar) * lambd)  # v_t - value_t
    target = value + correction
    next_target = torch.where(has_next.bool(), _next_rows(target), next_value)
    return target, rho * (torch.addcmul(reward, discount, next_target) - value)


def retrace(
    reward: Tensor,
    discount: Tensor,
    q: Tensor,
    next_v: Tensor,
    ratio: Tensor | None,
    continues: Tensor,
    lambd: float = 1.0,
    rho_bar: float = 1.0,
) -> Tensor:
    """Compute Retrace targets of Q-values (Munos et al. 2016, arXiv:1606.02647, eq. 3, 4; arXiv:1611.01224, eq. 5).

    Q_t = reward_t + discount_t * (next_v_t + c_{t+1} * (Q_{t+1} - q_{t+1})), with c_t = lambd * min(rho_bar, ratio_t).
    If the next row does not continue the episode, the term with c_{t+1} is 0. If `ratio` is None and lambd is 1, all
    c_t are 1 and the target is Q_opc of ACER (arXiv:1611.01224, section 4).

    Args:
        reward: Reward of each step, [T, B].
        discount: gamma, or 0 if the step ended in a terminal state, [T, B].
        q: Q(s, a) of the executed action of each step, [T, B].
        next_v: Value of the state after each step under the target policy, [T, B].
        ratio: Importance ratio: probability of the action under the target policy, divided by its probability under the
            behaviour policy, [T, B]. If None, all ratios are 1.
        continues: True if the next row continues the same episode, [T, B], bool.
        lambd: lambda, in [0, 1].
        rho_bar: Maximum ratio. If infinite, there is no limit.

    Returns:
        [T, B], or [T] if all arguments have the shape [T].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, q=q, next_v=next_v, ratio=ratio, continues=continues)
    trace = lambd * _continues(continues, reward)
    if ratio is not None:
        trace = trace * _next_rows(ratio.clamp(max=rho_bar))
    error = torch.addcmul(reward, discount, next_v) - q
    return q + _linear_recurrence(error, discount * trace)


def _linear_recurrence(x: Tensor, factor: Tensor) -> Tensor:
    """Compute y_t = x_t + factor_t * y_{t+1} for all T rows together, with y_T = 0.

    y_t is a sum over all later rows. After round k of the loop, x_t is the sum of the first 2**k terms, and factor_t is
    a product of 2**k factors. The loop has log2(T) rounds (Hillis and Steele 1986, doi:10.1145/7902.7903). A round
    skips the rows whose sum is complete.
    """
    factor, step = factor[:-1], 1
    while step < len(x):
        x = torch.cat([torch.addcmul(x[:-step], factor, x[step:]), x[-step:]])
        factor = factor[:-step] * factor[step:]
        step *= 2
    return x


def _continues(continues: Tensor, like: Tensor) -> Tensor:
    """Return `continues` in the dtype of `like`, with 0 in the last row."""
    return torch.cat([continues[:-1].to(like.dtype), torch.zeros_like(like[-1:])])


def _next_rows(x: Tensor) -> Tensor:
    """Return a tensor whose row t is row t + 1 of `x`, and whose last row is 0."""
    return torch.cat([x[1:], torch.zeros_like(x[-1:])])


def _check_shapes(reward: Tensor, **others: Tensor | None) -> None:
    for name, other in others.items():
        if other is not None and other.shape != reward.shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, expected {tuple(reward.shape)} as reward")
