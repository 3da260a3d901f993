"""Actor-critics of recorded data whose policies imitate the better actions."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.batch import Batch
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import square, weighted_mean
from pfrl_like.learning.actor_critic import STATISTICS_OF_CRITICS, OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import passed_on, two_or_more
from pfrl_like.learning.critics import (
    Targets,
    distribution_of,
    least,
    least_next_value,
    least_value,
    log_prob_of,
    values_of_actions,
)
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import constructor_only
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


@constructor_only("policy_optimizer", "q_func1_optimizer", "q_func2_optimizer")
class AdvantageWeightedActorCritic(OffPolicyActorCritic):
    """Base of agents whose policy learns by the likelihood of recorded actions times a weight.

    An algorithm says what the weight is (`weight`). There are two critics or more, and targets that move softly.

    Args:
        policy: Module from observations to distributions of actions with densities, such as one that ends in a
            `GaussianHeadWithStateIndependentCovariance`.
        q_func1: First critic, as in `SoftActorCritic`, like all arguments that are not named here.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic, None likewise.
        replay_buffer: As in `SoftActorCritic`.
        gamma: As in `SoftActorCritic`.
        gpu: As in `SoftActorCritic`.
        replay_start_size: As in `SoftActorCritic`.
        minibatch_size: As in `SoftActorCritic`.
        update_interval: As in `SoftActorCritic`.
        phi: As in `SoftActorCritic`.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: As in `SoftActorCritic`.
        logger: As in `SoftActorCritic`.
        batch_states: As in `SoftActorCritic`.
        burnin_action_func: As in `SoftActorCritic`.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: As in `SoftActorCritic`.
        further_q_func_optimizers: As in `SoftActorCritic`.
        n_times_update: As in `SoftActorCritic`.
        policy_update_delay: Updates of the critics for each one of the policy.
        batch_accumulator: As in `SoftActorCritic`.
        recurrent: As in `SoftActorCritic`, for algorithms that have a recurrent form.
        episodic_update_len: As in `SoftActorCritic`, likewise.
        device: As in `SoftActorCritic`.
        num_steps: As in `SoftActorCritic`, likewise.
        compile: As in `SoftActorCritic`.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    averaged_rows: tuple[str, ...] = ("weight",)
    averaged_updates: tuple[str, ...] = ("policy_loss",)
    reported: tuple[str, ...] = (*STATISTICS_OF_CRITICS, "average_policy_loss", "average_weight", "n_updates")
    targets = Targets(of_policy=False, moved="every update")
    needs_densities = True
    elementwise = staticmethod(square)
    is_offline = True

    def __init__(
        self,
        policy: nn.Module,
        q_func1: nn.Module,
        q_func2: nn.Module | None,
        policy_optimizer: torch.optim.Optimizer,
        q_func1_optimizer: torch.optim.Optimizer,
        q_func2_optimizer: torch.optim.Optimizer | None,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        *,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 256,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        act_deterministically: bool = True,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        n_times_update: int = 1,
        policy_update_delay: int = 1,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        critics, optimizers = two_or_more(locals())
        super().__init__(
            policy, critics, {"policy_optimizer": policy_optimizer, **optimizers}, replay_buffer, gamma, Greedy(),
            target_update_interval=None, target_update_method="soft", **passed_on(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    # How an algorithm differs

    def weight(self, batch: Batch) -> Tensor:
        """How much each recorded action counts, [N]; asked for with the networks in evaluation mode."""
        raise NotImplementedError

    def bootstrap(self, batch: Batch) -> tuple[Any, Tensor]:
        """Least value of an action of the policy, or of its target if there is one."""
        policy = self.target_policy if self.targets.of_policy else self.policy
        with evaluating_readers(policy):
            next_action = distribution_of(policy, batch, next=True).sample()
        return least_next_value(self.target_critics, batch, next_action), batch.reward

    # Learning

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Descend on `advantage_weighted_loss`."""
        with torch.no_grad(), evaluating_readers_among(self.policy, *self.critics):
            weight = self.weight(batch)
        loss = advantage_weighted_loss(self.policy, batch, weight, self.batch_accumulator)
        step("policy_optimizer", loss)
        return {"policy_loss": loss.detach(), "weight": weight}
