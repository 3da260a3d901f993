"""Evaluation of critics and policies on a batch, and the loss of a critic.

A critic is called as `critic((obs, action))`. It returns Q-values, [N, 1], or an `ActionValue` with one action, for
example quantiles [N, n, 1] or probabilities of atoms [N, 1, n]. The batch may contain sequences. A recurrent critic
computes its recurrent states from the observations and actions of the batch. The value of any other action is computed
from these states.
"""

import dataclasses
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue, min_of
from pfrl_like.batch import Batch, combine_nested, map_nested
from pfrl_like.distributions import masked, rows_of
from pfrl_like.functions.losses import half_square, weighted_mean
from pfrl_like.learning.model_outputs import output_of, wrong_critic
from pfrl_like.nn.fast_forward import apply_in_chunks, fast_forward
from pfrl_like.utils import recurrent


@dataclasses.dataclass(frozen=True)
class Targets:
    """Specification of an agent's target networks, and of the times at which they are updated.

    Args:
        of_policy: True if the policy has a target network.
        of_critics: True if the critics have target networks.
        schedule: Times at which the target networks are updated. "by interval": every `target_update_interval` steps.
            "every update": after every update. "with policy": after every update that trains the policy.
    """

    of_policy: bool = True
    of_critics: bool = True
    schedule: Literal["by interval", "every update", "with policy"] = "by interval"


#: Specification for agents without target networks.
NO_TARGETS = Targets(of_policy=False, of_critics=False, schedule="every update")


def updates_per_sync(agent: Any) -> int:
    """Return the number of updates that an agent makes in `target_update_interval` steps, rounded up."""
    if agent.target_update_interval is None:
        return sys.maxsize
    return int(-(-agent.target_update_interval // agent.update_interval) * agent.n_times_update)


def rollback(agent: Any, updates: int) -> None:
    """Decrease the update counters by `updates`.

    This is the number of updates that the GPU skipped because the loss or gradient was NaN or infinite.
    """
    agent.optim_t -= updates
    agent._updates_left = min(agent._updates_left + updates, agent._updates_per_sync())


def distribution_of(policy: Any, batch: Batch, *, next: bool = False) -> Any:
    """Return the policy's distribution for each row's state (or next state), restricted to the allowed actions."""
    obs, mask = (batch.next_obs, batch.next_action_mask) if next else (batch.obs, batch.action_mask)
    distribution = fast_forward(policy, obs) if batch.lengths is None else output_of(policy, batch, next=next)
    distribution = distribution if mask is None else masked(distribution, mask)
    return distribution if batch.next_row is None or not next else rows_of(distribution, batch.next_row)


def value_of(critic: Any, batch: Batch, action: Tensor | None = None, *, next: bool = False) -> Any:
    """Return the value of one action for each row's state (or next state).

    Args:
        critic: The critic.
        batch: Transitions or sequences.
        action: Actions, [N, ...]. If None, the actions of the batch are used.
        next: True to evaluate the actions in the next states.

    Returns:
        An `ActionValue` with one action, at index 0.

    Raises:
        TypeError: If the critic's output has the wrong type.
        ValueError: If the critic's output is a tensor that does not contain one number per row.
    """
    obs = batch.obs if not next else batch.next_obs if batch.next_row is None else next_obs_of(batch)
    if batch.lengths is None or not recurrent.is_recurrent(critic):
        output = fast_forward(critic, (obs, batch.action if action is None else action))
    elif action is None:
        output = recurrent.sequence_outputs(critic, (obs, batch.action), None, batch.lengths)
    else:
        history = _recurrent_states(critic, batch, after=next)
        if next and batch.next_row is not None:
            history = recurrent.map_recurrent_state(lambda state: state[:, batch.next_row], history)
        output = recurrent.one_step_forward(critic, (obs, action), history)[0]
    n = len(batch.action if action is None else action)
    if isinstance(output, Tensor) and output.shape in {(n, 1), (n,)}:
        return DiscreteActionValue(output.reshape(-1, 1))
    if isinstance(output, Tensor):
        got = tuple(output.shape)
        raise ValueError(f"a critic gives numbers of shape {got} for {n} rows, expected one number per row, ({n}, 1)")
    if not isinstance(output, DiscreteActionValue):
        raise wrong_critic(type(output), DiscreteActionValue)
    return output


def values_of_actions(critic: Any, batch: Batch, actions: Tensor, *, next: bool = False) -> Tensor:
    """Return Q(s, a) of M actions in each row's state (or next state), [M, N].

    If the critic is distributional, Q(s, a) is the mean of the distribution.

    On the CPU, the critic is called with chunks of the M * N state-action pairs. On other devices, the critic is called
    once. A recurrent critic is called once for each of the M actions, with its recurrent states after the steps before
    each row.

    Args:
        critic: The critic.
        batch: Transitions or sequences.
        actions: M actions for each row, [M, N, ...].
        next: True to evaluate the actions in the next states.
    """
    if batch.lengths is not None and recurrent.is_recurrent(critic):
        return torch.stack([mean_value(value_of(critic, batch, action, next=next)) for action in actions])

    def values(obs: Any, action: Tensor) -> Tensor:
        return mean_value(value_of(critic, batch.replace(obs=obs, lengths=None), action))

    return apply_in_chunks(values, next_obs_of(batch) if next else batch.obs, actions)


def min_next_value(critics: Sequence[Any], batch: Batch, action: Tensor) -> Any:
    """Return the value of `action` in each next state, from the critic whose mean value is smallest."""
    return min_of([value_of(critic, batch, action, next=True) for critic in critics])


def min_value(critics: Sequence[Any], batch: Batch, action: Tensor | None = None) -> Tensor:
    """Return the minimum of Q(s, a) over the critics, [N]. If `action` is None, the actions of the batch are used."""
    return minimum([mean_value(value_of(critic, batch, action)) for critic in critics])


def with_initial_states(network: Any, batch: Batch, *, next: bool = False) -> Batch:
    """Return the batch with the recurrent states of `network`, whose input is the state only.

    The recurrent states in a batch belong to the policy. Every other network begins each sequence with its own initial
    recurrent state. If `next` is True, the returned batch also contains the network's recurrent state after the first
    step of each sequence. The evaluation of `next_obs` begins with this state.
    """
    if batch.lengths is None:
        return batch
    after_first = None
    if next and recurrent.is_recurrent(network):
        count = len(batch.lengths)
        with torch.no_grad():
            first_obs = map_nested(lambda leaf: leaf[:count], batch.obs)
            _, after_first = recurrent.one_step_forward(network, first_obs, None)
    return batch.replace(recurrent_state=None, next_recurrent_state=after_first)


def log_prob_of(distribution: Any, action: Tensor) -> Tensor:
    """Return the log-probabilities of actions, [N].

    Raises:
        ValueError: If the log-probabilities or the actions have the wrong shape.
    """
    expected, got = tuple(distribution.event_shape), tuple(action.shape[1:])
    if expected != got and len(distribution.batch_shape) == 1:  # some distributions broadcast such actions silently
        raise ValueError(f"policy gives actions of shape {expected}, but the batch has actions of shape {got}")
    log_prob: Tensor = distribution.log_prob(action)
    if log_prob.ndim != 1:
        raise log_prob_shape_error(log_prob)
    return log_prob


def log_prob_shape_error(log_prob: Tensor) -> ValueError:
    """Return the exception for log-probabilities that are not one number per row."""
    return ValueError(
        f"log_prob of the policy's distribution has shape {tuple(log_prob.shape)}, expected one number for each row: "
        "wrap the distribution in torch.distributions.Independent"
    )


def next_obs_of(batch: Batch) -> Any:
    """Return the observation after the n steps of each row, nested tensors [N, ...]."""
    if batch.next_row is None:
        return batch.next_obs
    return map_nested(lambda leaf: leaf[batch.next_row], batch.next_obs)


@torch.no_grad()
def _recurrent_states(critic: Any, batch: Batch, after: bool) -> Any:
    """Return the critic's recurrent state before each row, or after each row if `after` is True, for all N rows.

    The result is None if all these states are initial states.
    """
    assert batch.lengths is not None
    state, start, count, states = None, 0, len(batch.lengths), []
    for size in recurrent.batch_sizes_of(batch.lengths).tolist():
        before = recurrent.map_recurrent_state(lambda part: part[:, :size].contiguous(), state)  # noqa: B023 - called immediately
        step = map_nested(lambda leaf: leaf[start : start + size], (batch.obs, batch.action))  # noqa: B023
        _, state = recurrent.one_step_forward(critic, step, before)
        states.append(state if after else before)
        start += size
    if states[-1] is None:  # all sequences have one step
        return None
    if states[0] is None:
        states[0] = recurrent.map_recurrent_state(
            lambda part: part.new_zeros(part.shape[0], count, *part.shape[2:]), states[-1]
        )
    return combine_nested(lambda parts: torch.cat(parts, dim=1), states)


def mean_value(value: Any) -> Tensor:
    """Return Q(s, a) of an `ActionValue` with one action, [N]."""
    mean: Tensor = value.q_values.squeeze(1)
    return mean


def minimum(values: Sequence[Tensor]) -> Tensor:
    """Return the minimum of several values for each row, [N]."""
    return functools.reduce(torch.minimum, values)


def average(values: Sequence[Tensor]) -> Tensor:
    """Return the mean of several values for each row, [N]."""
    return torch.stack(list(values)).mean(0)


def critic_loss(
    value: Any,
    batch: Batch,
    next_value: Any,
    reward: Tensor | None = None,
    *,
    action: Tensor | None = None,
    next_action: Tensor | None = None,
    elementwise: Callable[[Tensor], Tensor] = half_square,
    accumulator: str = "mean",
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss between a critic's values and the targets `reward + discount * next_value`.

    Args:
        value: `ActionValue` of the states. It contains the values of several actions, or only of the action taken.
        batch: Transitions or sequences.
        next_value: `ActionValue` of the next states. No gradient flows into it.
        reward: Rewards, [N]. If None, the rewards of the batch are used.
        action: Index of the action taken, [N]. If None, `value` contains only this action.
        next_action: Index of the action in the next state whose value is used in the target, [N]. If None, `next_value`
            contains only this action.
        elementwise: Function from TD errors to losses, element by element. Distributional critics have their own loss
            and ignore this argument.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), the TD errors, [N], and Q(s, a), [N]. The TD errors and
        Q(s, a) are detached.
    """
    reward = batch.reward if reward is None else reward
    first_action = torch.zeros_like(reward, dtype=torch.int64)
    action = first_action if action is None else action
    next_action = first_action if next_action is None else next_action
    loss, td_error, mean = value.td_loss(action, reward, batch.discount, next_value, next_action, elementwise)
    return weighted_mean(loss, batch.weight, accumulator), td_error, mean
