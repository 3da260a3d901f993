"""Returns and advantages of every step of a rollout, time first.

A rollout holds T steps of B environments; its episodes stand one after the other in its columns. One column, [T], will
do as well. Everywhere

- `discount` is gamma, or 0 where the step ended in a terminal state, [T, B];
- `next_value` is the value of the state that the step led to, the last one of a truncated episode included, never of
  the first state of the episode after it, [T, B];
- `continues` is True where the next row of the column is the next step of the same episode: False where the episode
  ends, by termination or truncation. In the last row it does not matter; nothing follows.

Gradients flow into every argument of floats; the caller stops them.
"""

import torch
from torch import Tensor


def gae(reward: Tensor, discount: Tensor, value: Tensor, next_value: Tensor, continues: Tensor, lambd: float) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2015, arXiv:1506.02438, eq. 16).

    A_t = delta_t + discount_t * lambd * A_{t+1}, with delta_t = reward_t + discount_t * next_value_t - value_t.

    Args:
        reward: [T, B].
        discount: [T, B].
        value: Value of the state that each step started in, [T, B].
        next_value: [T, B].
        continues: [T, B], bool.
        lambd: lambda, in [0, 1].

    Returns:
        [T, B].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, value=value, next_value=next_value, continues=continues)
    delta = torch.addcmul(reward, discount, next_value) - value
    return _linear_recurrence(delta, lambd * discount * _goes_on(continues, reward))


def lambda_returns(reward: Tensor, discount: Tensor, next_value: Tensor, continues: Tensor, lambd: float) -> Tensor:
    """Returns that mix those of all numbers of steps (Sutton and Barto 2018, eq. 12.18).

    G_t = reward_t + discount_t * ((1 - lambd) * next_value_t + lambd * G_{t+1}); where nothing follows, next_value_t
    takes the place of G_{t+1}. With lambd = 1 that is the return of as many steps as there are.

    Args:
        reward: [T, B].
        discount: [T, B].
        next_value: [T, B].
        continues: [T, B], bool.
        lambd: lambda, in [0, 1].

    Returns:
        [T, B].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, next_value=next_value, continues=continues)
    trace = lambd * _goes_on(continues, reward)
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
    """V-trace targets and advantages of steps that another policy made (Espeholt et al. 2018, arXiv:1802.01561, eq. 1).

    v_t = value_t + rho_t * delta_t + discount_t * c_t * (v_{t+1} - value_{t+1}), with delta_t as in `gae`,
    rho_t = min(rho_bar, ratio_t) and c_t = lambd * min(c_bar, ratio_t). The advantage is that of section 4.2,
    rho_t * (reward_t + discount_t * v_{t+1} - value_t); where nothing follows, next_value_t takes the place of v_{t+1}.

    Args:
        reward: [T, B].
        discount: [T, B].
        value: Value of the state that each step started in, [T, B].
        next_value: [T, B].
        ratio: Probability of the action under the policy that learns, divided by that under the one that acted,
            [T, B].
        continues: [T, B], bool.
        lambd: lambda, in [0, 1].
        rho_bar: Largest weight of a step's error; infinity for none.
        c_bar: Largest weight with which later errors are passed on.

    Returns:
        Targets of the value and advantages, both [T, B].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, value=value, next_value=next_value, ratio=ratio, continues=continues)
    goes_on = _goes_on(continues, reward)
    rho = ratio.clamp(max=rho_bar)
    error = rho * (torch.addcmul(reward, discount, next_value) - value)
    beyond = _linear_recurrence(error, discount * goes_on * ratio.clamp(max=c_bar) * lambd)  # v_t - value_t
    target = value + beyond
    next_target = torch.where(goes_on.bool(), _next_rows(target), next_value)
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
    """Retrace targets of action values (Munos et al. 2016, arXiv:1606.02647, eq. 3, 4; Wang et al. 2016, eq. 5).

    Q_t = reward_t + discount_t * (next_v_t + c_{t+1} * (Q_{t+1} - q_{t+1})), with c_t = lambd * min(rho_bar, ratio_t);
    where nothing follows, the second term is 0. With c = 1 it is the Q_opc of ACER (arXiv:1611.01224, section 4).

    Args:
        reward: [T, B].
        discount: [T, B].
        q: Value of the action that each step took in its state, [T, B].
        next_v: Mean value of the state that the step led to, under the policy that learns, [T, B].
        ratio: Probability of the action under the policy that learns, divided by that under the one that acted,
            [T, B]; None counts every one as 1.
        continues: [T, B], bool.
        lambd: lambda, in [0, 1].
        rho_bar: Largest ratio; infinity for none.

    Returns:
        [T, B].

    Raises:
        ValueError: If the shapes differ.
    """
    _check_shapes(reward, discount=discount, q=q, next_v=next_v, ratio=ratio, continues=continues)
    trace = lambd * _goes_on(continues, reward)
    if ratio is not None:
        trace = trace * _next_rows(ratio.clamp(max=rho_bar))
    error = torch.addcmul(reward, discount, next_v) - q
    return q + _linear_recurrence(error, discount * trace)


def _linear_recurrence(x: Tensor, factor: Tensor) -> Tensor:
    """y_t = x_t + factor_t * y_{t+1}, with 0 after the last row, all rows at once.

    After round k, x_t is the sum of the first 2**k terms of y_t and factor_t the product of as many factors, so that T
    rows take log2(T) rounds (Hillis and Steele 1986, doi:10.1145/7902.7903). Rows that have all their terms drop out.
    """
    factor, step = factor[:-1], 1
    while step < len(x):
        x = torch.cat([torch.addcmul(x[:-step], factor, x[step:]), x[-step:]])
        factor = factor[:-step] * factor[step:]
        step *= 2
    return x


def _goes_on(continues: Tensor, like: Tensor) -> Tensor:
    """`continues` as numbers, 0 in the last row."""
    return torch.cat([continues[:-1].to(like.dtype), torch.zeros_like(like[-1:])])


def _next_rows(x: Tensor) -> Tensor:
    """The row after each one, 0 after the last."""
    return torch.cat([x[1:], torch.zeros_like(x[-1:])])


def _check_shapes(reward: Tensor, **others: Tensor | None) -> None:
    for name, other in others.items():
        if other is not None and other.shape != reward.shape:
            raise ValueError(f"{name} has shape {tuple(other.shape)}, expected {tuple(reward.shape)}, that of reward")
