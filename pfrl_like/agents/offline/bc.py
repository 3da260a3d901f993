"""Behavioural cloning, of continuous and of discrete actions (Pomerleau 1991, doi:10.1162/neco.1991.3.1.88)."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn.functional import softplus

from pfrl_like.batch import Batch
from pfrl_like.distributions import masked
from pfrl_like.explorers import Greedy
from pfrl_like.functions.losses import squared_distance, weighted_mean
from pfrl_like.learning.actor_critic import OffPolicyActorCritic
from pfrl_like.learning.compatibility.arguments import passed_on
from pfrl_like.learning.compatibility.parts import check_keywords, check_numbers_in
from pfrl_like.learning.critics import NO_TARGETS, distribution_of, log_prob_of
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def bc_loss(policy: Any, batch: Batch, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """-log pi(a|s) of the recorded actions, or (pi(s) - a)**2, averaged over the numbers of an action.

    The latter is for policies whose distributions have no density.

    Args:
        policy: The policy, which takes the gradient.
        batch: Transitions or sequences.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and detached: how wrong each row is, [N], positive and
        rising with its loss.
    """
    return bc_loss_of(distribution_of(policy, batch), batch, accumulator)


def bc_loss_of(distribution: Any, batch: Batch, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """`bc_loss` of the distributions of all rows."""
    if getattr(distribution, "has_density", True):
        loss = -log_prob_of(distribution, batch.action)
        return weighted_mean(loss, batch.weight, accumulator), softplus(loss.detach())
    loss = squared_distance(distribution.rsample(), batch.action) / batch.action[0].numel()
    return weighted_mean(loss, batch.weight, accumulator), loss.detach()


def discrete_bc_loss(policy: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """-log pi(a|s) of the recorded actions + beta * the mean of the squared logits.

    Args:
        policy: The policy, which takes the gradient. Its logits are those that a categorical distribution of this
            package was made of, or of another its log-probabilities.
        batch: Transitions or sequences; forbidden actions are left out of the first term.
        beta: Weight of the second term.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        As `bc_loss`.
    """
    distribution = distribution_of(policy, batch.replace(action_mask=None))
    logits = distribution.scores if hasattr(distribution, "scores") else distribution.logits
    allowed = distribution if batch.action_mask is None else masked(distribution, batch.action_mask)
    surprise = -log_prob_of(allowed, batch.action)
    loss = surprise + beta * logits.square().mean(-1)
    return weighted_mean(loss, batch.weight, accumulator), surprise.detach()


def imitation_step(agent: Any, batch: Batch, step: Step, with_policy: bool = True) -> tuple[Tensor, dict[str, Tensor]]:
    """The `update_step` of agents that minimise an `imitation_loss`, and nothing else."""
    loss, error = agent.imitation_loss(batch)
    step("optimizer", loss)
    return error, {"loss": loss.detach()}


class BC(OffPolicyActorCritic):
    """Behavioural cloning: the policy imitates the actions that it learns from; rewards count for nothing.

    Args:
        policy: Module from observations to distributions of actions. One that ends in a `DeterministicHead` learns by
            the squared error, others by the likelihood.
        optimizer: Its optimiser.
        replay_buffer: As in `DQN`, like all arguments that are not named here.
        gpu: As in `DQN`.
        replay_start_size: As in `DQN`.
        minibatch_size: As in `DQN`.
        update_interval: As in `DQN`.
        phi: As in `DQN`.
        n_times_update: As in `DQN`.
        max_grad_norm: As in `DQN`.
        logger: As in `DQN`.
        batch_states: As in `DQN`.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        batch_accumulator: As in `DQN`.
        recurrent: As in `DQN`.
        episodic_update_len: As in `DQN`.
        device: As in `DQN`.
        compile: As in `DQN`.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    action_kind = ("box", "continuous", "DiscreteBC")
    discrete_form = "DiscreteBC"
    averaged_updates = ("loss",)
    reported = ("average_loss", "n_updates")
    bootstraps = False
    is_offline = True
    targets = NO_TARGETS

    def __init__(
        self,
        policy: nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        *,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        n_times_update: int = 1,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        act_deterministically: bool = True,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(
            policy, {}, {"optimizer": optimizer}, replay_buffer, 1.0, Greedy(), burnin_action_func=None,
            target_update_interval=None, target_update_method="hard", soft_update_tau=1.0, num_steps=1,
            **passed_on(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    def imitation_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`bc_loss`."""
        return bc_loss(self.policy, batch, self.batch_accumulator)

    update_step = imitation_step


class DiscreteBC(BC):
    """Behavioural cloning of discrete actions.

    Args:
        args: As `BC`; the policy gives categorical distributions, such as one that ends in a `SoftmaxCategoricalHead`.
        beta: Weight of the mean squared logits in the loss, at least 0.
        kwargs: As `BC`.

    Raises:
        ValueError: If `beta` is negative, and as `BC`.
        TypeError: As `BC`.
    """

    value_type: type[Any] = Categorical
    action_kind = ("discrete", "discrete", "BC")

    def __init__(self, *args: Any, beta: float = 0.5, **kwargs: Any) -> None:
        check_keywords(self, BC, kwargs)
        self.beta = beta
        check_numbers_in(self, beta=(0, None))
        super().__init__(*args, **kwargs)

    def imitation_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """`discrete_bc_loss`."""
        return discrete_bc_loss(self.policy, batch, self.beta, self.batch_accumulator)
