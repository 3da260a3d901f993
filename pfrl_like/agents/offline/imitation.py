"""Imitators of recorded actions, their losses, and the choice of the most valued of the actions that they draw."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.agents.offline.bc import bc_loss
from pfrl_like.batch import Batch, map_nested
from pfrl_like.distributions import DeltaVector
from pfrl_like.functions.losses import squared_distance, weighted_mean
from pfrl_like.learning.acting import at_rows
from pfrl_like.learning.compatibility.dry_run import told_of, tried_output
from pfrl_like.learning.compatibility.parts import check_distribution, check_numbers_in
from pfrl_like.learning.critics import mean_value
from pfrl_like.nn import ConditionalVAE
from pfrl_like.nn.fast_forward import apply_in_chunks, fast_forward
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.random_streams.streams import isolated_rng


def conditional_vae_loss(imitator: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """Squared error of the reconstructed actions + beta * KL(N(mean, std) || N(0, 1)) (arXiv:1812.02900, appendix D).

    Each term is averaged over its components.

    Args:
        imitator: A `ConditionalVAE`, which takes the gradient.
        batch: Transitions.
        beta: Weight of the KL divergence.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and the detached loss of each row, [N].
    """
    action, mean, log_std = fast_forward(imitator, (batch.obs, batch.action))
    divergence = 0.5 * (mean.square() + (2 * log_std).exp() - 1) - log_std
    loss = squared_distance(action, batch.action) / batch.action[0].numel() + beta * divergence.mean(1)
    return weighted_mean(loss, batch.weight, accumulator), loss.detach()


def imitation_loss(imitator: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """`conditional_vae_loss` of a `ConditionalVAE`, which documents the arguments; `bc_loss` of a policy."""
    if isinstance(imitator, ConditionalVAE):
        return conditional_vae_loss(imitator, batch, beta, accumulator)
    return bc_loss(imitator, batch, accumulator)


@torch.no_grad()
def imitated_actions(imitator: Any, obs: Any, n: int) -> Tensor:
    """Draw n actions of the imitator for each observation, [n, N, ...]."""
    if isinstance(imitator, ConditionalVAE):
        return imitator.draw(obs, n)
    drawn: Tensor = fast_forward(imitator, obs).sample((n,))
    return drawn


# Functions of actor-critics that also learn an imitator


def take_imitator(
    agent: Any, imitator: nn.Module, optimizer: torch.optim.Optimizer, beta: float, rl_start_step: float
) -> None:
    """Store the imitator arguments of an agent's constructor, which calls this first.

    Args:
        agent: The agent; its `extra_modules` returns `_its_imitator`, which this sets.
        imitator: The imitator.
        optimizer: Optimiser of the imitator.
        beta: Weight of the KL divergence in the loss of a `ConditionalVAE`, at least 0.
        rl_start_step: Number of first updates in which only the imitator learns.

    Raises:
        ValueError: If `beta` or `rl_start_step` is negative.
    """
    agent.beta, agent.rl_start_step = beta, rl_start_step
    check_numbers_in(agent, beta=(0, None), rl_start_step=(0, None))
    agent._its_imitator = {"imitator": imitator}, {"imitator_optimizer": optimizer}


def step_imitator(
    agent: Any, batch: Batch, step: Step, found: tuple[Tensor, dict[str, Tensor]] | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Minimise the imitator's loss, and return TD errors, [N], and statistics of the whole update.

    Args:
        agent: The agent.
        batch: Minibatch of features.
        step: Takes a gradient step on a loss.
        found: TD errors and statistics of the other steps; None if only the imitator learns, whose errors are returned.
    """
    loss, error = imitation_loss(agent.imitator, batch, agent.beta, agent.batch_accumulator)
    step("imitator_optimizer", loss)
    td_error, stats = found or (error, {"loss": loss.detach()})
    return td_error, {**stats, "imitator_loss": loss.detach()}


def learn_imitator_alone(agent: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Update only the imitator, as before `rl_start_step`; returns errors, [N], and statistics."""
    return agent._run_update_step(batch.replace(action=batch.action.float()), False, True)  # type: ignore[no-any-return]


def try_imitator(agent: Any, batch: Batch) -> None:
    """Reject an imitator that cannot learn from a batch of two rows.

    Raises:
        TypeError: If its inputs or its output have another type.
        ValueError: If observations or actions do not fit it.
    """
    if not isinstance(agent.imitator, ConditionalVAE):
        given: Any = tried_output("imitator", agent.imitator, batch, Distribution, "a pfrl_like.nn.ConditionalVAE")
        check_distribution("imitator", given, densities=False, reparametrised=True, instead="another agent")
    else:
        with told_of("imitator.encoder", batch):
            fast_forward(agent.imitator.encoder, (batch.obs, batch.action))
        with told_of("imitator.decoder", batch):
            agent.imitator.draw(batch.obs, 1)
    with told_of("imitator", batch):
        imitation_loss(agent.imitator, batch, agent.beta)


class ChosenAction(DeltaVector):
    """Actions chosen among several by their values.

    Args:
        loc: The actions, [N, A].
        score: Maps any actions in the same states to their values, [N], to compare them with the chosen ones.
    """

    def __init__(self, loc: Tensor, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__(loc)
        self.score = score


def chosen(actions: Tensor, values: Tensor) -> Tensor:
    """Choose the action of the largest value, [N, A], among actions [M, N, A] with values [M, N]."""
    return actions[values.argmax(0), torch.arange(values.shape[1], device=values.device)]


def most_valued(critic: Any, obs: Any, actions: Tensor) -> ChosenAction:
    """Choose the action that a critic values most in each state, among actions [M, N, A]."""
    score = functools.partial(_value, critic)
    return ChosenAction(chosen(actions, apply_in_chunks(score, obs, actions)), functools.partial(score, obs))


def chosen_for_active(choose: Callable[[Any], DeltaVector], obs: Any, active: Any) -> DeltaVector:
    """Actions that `choose` gives for k observations; zeros, without random draws, for inactive environments."""
    if active is None or np.all(active):
        return choose(obs)
    if not np.any(active):
        with isolated_rng():
            return DeltaVector(torch.zeros_like(choose(obs).mode))
    rows = torch.from_numpy(np.flatnonzero(active))
    some = choose(map_nested(lambda leaf: leaf[rows.to(leaf.device)], obs)).mode
    return DeltaVector(at_rows(some, rows, len(active)))


def _value(critic: Any, obs: Any, action: Tensor) -> Tensor:
    value: Any = fast_forward(critic, (obs, action))
    return value.reshape(-1) if isinstance(value, Tensor) else mean_value(value)
