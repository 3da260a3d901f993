"""TD3 with behavioural cloning (arXiv:2106.06860), and ReBRAC, with penalised critics, too (arXiv:2305.09836)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.td3 import TD3, td3_next_action
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import over_mean_size, squared_distance, weighted_mean
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import distribution_of, least_next_value, least_value, mean_value, value_of


def td3_plus_bc_policy_loss(
    policy: Any, q_function: Any, batch: Batch, alpha: float, accumulator: str = "mean"
) -> Tensor:
    """-alpha * Q(s, pi(s)) / mean |Q| + (pi(s) - a)**2, with the square averaged over the action's components.

    (arXiv:2106.06860, section 4.)

    Args:
        policy: The policy, which takes the gradient.
        q_function: The critic.
        batch: Transitions or sequences.
        alpha: Weight of the critic's term, where the squared error has the weight 1.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has weights.
    """
    action = distribution_of(policy, batch).rsample()
    q = mean_value(value_of(q_function, batch, action))
    distance = squared_distance(action, batch.action) / action[0].numel()
    return weighted_mean(distance - alpha * over_mean_size(q), batch.weight, accumulator)


class TD3PlusBC(TD3):
    """TD3 whose policy also imitates the recorded actions.

    In the paper observations have mean 0 and standard deviation 1 (`preprocessing`). An update equals that of d3rlpy
    2.8.

    Args:
        args: As `TD3`.
        alpha: Weight of the critic's term in the policy's loss, where the squared error has the weight 1; 0 gives
            imitation only.
        kwargs: As `TD3`.

    Raises:
        ValueError: If `alpha` is negative, or on values outside those named in `TD3`.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _is_offline = True

    def __init__(self, *args: Any, alpha: float = 2.5, **kwargs: Any) -> None:
        self.alpha = alpha
        check_numbers_in(self, alpha=(0, None))
        super().__init__(*args, **kwargs)

    def policy_loss(self, batch: Batch) -> Tensor:
        """`td3_plus_bc_policy_loss` of the first critic."""
        return td3_plus_bc_policy_loss(self.policy, self.critics[0], batch, self.alpha, self.batch_accumulator)


def rebrac_policy_loss(
    policy: Any, critics: Sequence[Any], batch: Batch, beta: float, accumulator: str = "mean"
) -> Tensor:
    """-Q / mean |Q| + beta * (pi(s) - a)**2, with Q the least Q(s, pi(s)) of the critics (arXiv:2305.09836, section 3).

    Args:
        policy: The policy, which takes the gradient.
        critics: The critics.
        batch: Transitions or sequences.
        beta: Weight of the squared distance from the recorded actions.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has weights.
    """
    action = distribution_of(policy, batch).rsample()
    q = least_value(critics, batch, action)
    loss = beta * squared_distance(action, batch.action) - over_mean_size(q)
    return weighted_mean(loss, batch.weight, accumulator)


def rebrac_reward(batch: Batch, next_action: Tensor, beta: float) -> Tensor:
    """Rewards less the penalty on the next actions, [N]: `reward - discount * beta * (a' - b')**2`.

    The result plus `discount * Q(s', a')` is the target of critics of any form (arXiv:2305.09836, section 3). At the
    end of an episode, where the next recorded action b' is not known, there is no penalty.

    Args:
        batch: Transitions or sequences, with `next_action`.
        next_action: Actions a' that the critics bootstrap from, [N, ...].
        beta: Weight of the penalty.

    Raises:
        ValueError: If the batch has no `next_action`.
    """
    recorded = _next_actions_of(batch)
    recorded = recorded if batch.next_row is None else recorded[batch.next_row]
    distance = squared_distance(next_action, recorded.to(next_action.dtype))
    unknown = recorded.flatten(1).isnan().any(1)
    return torch.addcmul(batch.reward, batch.discount, distance.masked_fill(unknown, 0.0), value=-beta)


def _next_actions_of(batch: Batch) -> Tensor:
    if batch.next_action is None:
        raise ValueError(
            "batch lacks next_action, from which the critics' penalty is made: give next_actions=True to sample_batch, "
            "or to sample_sequences"
        )
    recorded: Tensor = batch.next_action
    return recorded


class ReBRAC(TD3):
    """TD3 that penalises distance from the recorded actions in the policy's loss and in the critics' targets.

    Batches for `update` need the actions after their own: `sample_batch(..., next_actions=True)`. The agent requests
    them from runners and from the replay buffer. An update equals that of d3rlpy 2.8.

    Args:
        args: As `TD3`. In the paper critics have layer normalisation, such as `DropoutFCSAQFunction` with `dropout=0`.
        actor_beta: Weight of the squared distance of the policy's actions from the recorded ones, at least 0.
        critic_beta: Weight of the squared distance of the next actions from the recorded ones, at least 0.
        kwargs: As `TD3`.

    Raises:
        ValueError: On values outside those named here or in `TD3`, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _is_offline = True
    sampling = {"next_actions": True}  # noqa: RUF012 - as in the base

    def __init__(self, *args: Any, actor_beta: float = 0.001, critic_beta: float = 0.01, **kwargs: Any) -> None:
        self.actor_beta, self.critic_beta = actor_beta, critic_beta
        check_numbers_in(self, actor_beta=(0, None), critic_beta=(0, None))
        super().__init__(*args, **kwargs)

    def learn(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Update as `TD3`, after a check that the batch has next actions."""
        _next_actions_of(batch)  # before anything is compiled
        return super().learn(batch)

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Least value of TD3's next action under the target critics, and `rebrac_reward`."""
        next_action = td3_next_action(self.target_policy, batch, self.target_policy_smoothing_func)
        reward = rebrac_reward(batch, next_action, self.critic_beta)
        return least_next_value(self.target_critics, batch, next_action), reward

    def policy_loss(self, batch: Batch) -> Tensor:
        """`rebrac_policy_loss` of all critics."""
        return rebrac_policy_loss(self.policy, self.critics, batch, self.actor_beta, self.batch_accumulator)
