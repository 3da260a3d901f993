"""Actor-critics whose policy imitates recorded actions, the more the better the critics find them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.offline.offline_actor_critic import OfflineActorCritic
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.learning.critics import (
    distribution_of,
    least,
    least_next_value,
    least_value,
    log_prob_of,
    values_of_actions,
)
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among


def advantage_weighted_loss(policy: Any, batch: Batch, weight: Tensor, accumulator: str = "mean") -> Tensor:
    """-w(s, a) * log pi(a|s) of the recorded actions (arXiv:2006.09359, section 4; arXiv:2006.15134, section 3).

    Args:
        policy: The policy, which takes the gradient.
        batch: Transitions or sequences.
        weight: w, [N]; takes no gradient.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss, weighted if the batch has importance weights.
    """
    log_prob = log_prob_of(distribution_of(policy, batch), batch.action)
    return weighted_mean(-weight * log_prob, batch.weight, accumulator)


def sampled_advantage(
    policy: Any,
    critics: Sequence[Any],
    batch: Batch,
    n_samples: int,
    pool: Callable[[Tensor, int], Tensor] = torch.mean,
) -> Tensor:
    """Min Q(s, a) of the recorded actions less what is expected of the policy's, [N].

    Args:
        policy: The policy, from which actions are drawn.
        critics: The critics.
        batch: Transitions or sequences.
        n_samples: How many actions are drawn in each state.
        pool: Makes one number of their values, [n_samples, N], along the axis that it is called with.
    """
    drawn = distribution_of(policy, batch).sample((n_samples,))
    values = least([values_of_actions(critic, batch, drawn) for critic in critics])
    return least_value(critics, batch) - pool(values, 0)


class AdvantageWeightedActorCritic(OfflineActorCritic):
    """Base of agents whose policy learns by the likelihood of recorded actions times a weight.

    An algorithm says what the weight is (`weight`).

    Args:
        args: As `OfflineActorCritic`; the policy gives distributions with densities, such as one that ends in a
            `GaussianHeadWithStateIndependentCovariance`.
        kwargs: As `OfflineActorCritic`.

    Raises:
        ValueError: As `OfflineActorCritic`.
        TypeError: As `OfflineActorCritic`.
    """

    averaged_rows: tuple[str, ...] = ("weight",)
    averaged_updates: tuple[str, ...] = ("policy_loss",)
    reported: tuple[str, ...] = (
        "average_q1", "average_q2", "average_q_func1_loss", "average_q_func2_loss", "average_policy_loss",
        "average_weight", "n_updates",
    )  # fmt: skip
    has_target_policy = False
    needs_densities = True

    # How an algorithm differs

    def weight(self, batch: Batch) -> Tensor:
        """How much each recorded action counts, [N]; asked for with the networks in evaluation mode."""
        raise NotImplementedError

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Least value of an action of the policy, or of its target if there is one."""
        policy = self.target_policy if self.has_target_policy else self.policy
        with evaluating_readers(policy):
            next_action = distribution_of(policy, batch, next=True).sample()
        return least_next_value(self.target_critics, batch, next_action), batch.reward

    # Learning

    def improve_policy(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Descend on `advantage_weighted_loss`."""
        with torch.no_grad(), evaluating_readers_among(self.policy, *self.critics):
            weight = self.weight(batch)
        loss = advantage_weighted_loss(self.policy, batch, weight, self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach(), "weight": weight}
