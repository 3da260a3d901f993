"""Behavioural cloning, for continuous and for discrete actions (Pomerleau 1991, doi:10.1162/neco.1991.3.1.88)."""

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
from pfrl_like.learning.compatibility.arguments import arguments_for, keywords_for
from pfrl_like.learning.compatibility.parts import check_numbers_in
from pfrl_like.learning.critics import NO_TARGETS, distribution_of, log_prob_of
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def bc_loss(policy: Any, batch: Batch, accumulator: str = "mean", squared_error: bool = False) -> tuple[Tensor, Tensor]:
    """Return the imitation loss: -log pi(a|s) of the recorded actions, or the squared error (pi(s) - a)**2.

    The squared error, averaged over the components of an action, is used if the policy's distributions have no density,
    or if `squared_error` is True. pi(s) is then a reparametrised sample.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        batch: Transitions or sequences.
        accumulator: "mean" or "sum" over the rows.
        squared_error: True for the squared error of samples of distributions that have a density.

    Returns:
        The scalar loss (weighted if the batch has weights), and a detached error of each row, [N]. The error is
        positive and increases with the row's loss, so that it can be the row's priority.
    """
    return bc_loss_of(distribution_of(policy, batch), batch, accumulator, squared_error)


def bc_loss_of(
    distribution: Any, batch: Batch, accumulator: str = "mean", squared_error: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the result of `bc_loss`, computed from the policy's distributions for the rows of the batch."""
    if getattr(distribution, "has_density", True) and not squared_error:
        loss = -log_prob_of(distribution, batch.action)
        return weighted_mean(loss, batch.weight, accumulator), softplus(loss.detach())
    loss = squared_distance(distribution.rsample(), batch.action) / batch.action[0].numel()
    return weighted_mean(loss, batch.weight, accumulator), loss.detach()


def discrete_bc_loss(policy: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """Return the loss -log pi(a|s) of the recorded actions, plus beta times the mean of the squared logits.

    The logits of this package's categorical distributions are the argument of their constructor. The logits of other
    distributions are the log-probabilities.

    Args:
        policy: The policy. The gradient of the loss flows into its parameters.
        batch: Transitions or sequences. The action mask applies to log pi(a|s), not to the squared logits.
        beta: Weight of the squared logits.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and the detached -log pi(a|s) of each row, [N].
    """
    distribution = distribution_of(policy, batch.replace(action_mask=None))
    logits = distribution.scores if hasattr(distribution, "scores") else distribution.logits
    allowed = distribution if batch.action_mask is None else masked(distribution, batch.action_mask)
    nll = -log_prob_of(allowed, batch.action)
    loss = nll + beta * logits.square().mean(-1)
    return weighted_mean(loss, batch.weight, accumulator), nll.detach()


def imitation_step(agent: Any, batch: Batch, step: Step, with_policy: bool = True) -> Update:
    """Minimise the agent's `imitation_loss`.

    This function is the method `update_step` of agents that have no other loss.
    """
    loss, error = agent.imitation_loss(batch)
    step("optimizer", loss)
    return error, {"loss": loss.detach()}


class BC(OffPolicyActorCritic):
    """Behavioural cloning: the policy imitates the recorded actions. Rewards have no effect.

    Args:
        policy: Module from observations to distributions of actions. If the module ends in a `DeterministicHead`, the
            squared error is minimised; otherwise the likelihood is maximised.
        optimizer: Optimiser of the policy.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train the policy on sequences. The policy must have the interface of
            `pfrl_like.nn.Recurrent`.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        squared_error: True to minimise (x - a)**2 for a reparametrised sample x of the policy, as d3rlpy 2.8 does for
            stochastic policies. False to minimise -log pi(a|s) if the policy's distributions have a density.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("box", "continuous", "DiscreteBC")
    _discrete_alternative = "DiscreteBC"
    #: Names of the statistics that have one value per update.
    averaged_updates = ("loss",)
    #: Names of the statistics that `get_statistics` returns.
    reported = ("average_loss", "n_updates")
    bootstraps = False
    _is_offline = True
    _targets = NO_TARGETS

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
        squared_error: bool = False,
    ) -> None:
        self.squared_error = squared_error
        super().__init__(
            policy, {}, {"optimizer": optimizer}, replay_buffer, 1.0, Greedy(), burnin_action_func=None,
            target_update_interval=None, target_update_method="hard", soft_update_tau=1.0, num_steps=1,
            **keywords_for(OffPolicyActorCritic, locals()),
        )  # fmt: skip

    def imitation_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the imitation loss, and the imitation error of each row, [N]."""
        return bc_loss(self.policy, batch, self.batch_accumulator, self.squared_error)

    update_step = imitation_step


class DiscreteBC(BC):
    """Behavioural cloning for discrete actions.

    Args:
        policy: Module from observations to categorical distributions, for example one that ends in a
            `SoftmaxCategoricalHead`.
        optimizer: Optimiser of the policy.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        n_times_update: Number of updates every `update_interval` steps.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train the policy on sequences. The policy must have the interface of
            `pfrl_like.nn.Recurrent`.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        beta: Weight of the mean squared logits in the loss, at least 0.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
    """

    value_type: type[Any] = Categorical
    # Kind of the action space, the word for this kind in error messages, and the agent for the other kind.
    action_kind = ("discrete", "discrete", "BC")

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
        beta: float = 0.5,
    ) -> None:
        self.beta = beta
        check_numbers_in(self, beta=(0, None))
        super().__init__(**arguments_for(BC, locals()))

    def imitation_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the imitation loss, and -log pi(a|s) of each row, [N]."""
        return discrete_bc_loss(self.policy, batch, self.beta, self.batch_accumulator)
