"""Imitators of recorded actions: their losses, and the selection of the best of several sampled actions."""

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
from pfrl_like.learning.acting import scatter_rows
from pfrl_like.learning.compatibility.dry_run import dry_run_output, name_in_errors
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
        imitator: A `ConditionalVAE`. The gradient of the loss flows into its parameters.
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
    """Return `conditional_vae_loss` for a `ConditionalVAE`, and `bc_loss` for a policy."""
    if isinstance(imitator, ConditionalVAE):
        return conditional_vae_loss(imitator, batch, beta, accumulator)
    return bc_loss(imitator, batch, accumulator)


@torch.no_grad()
def imitated_actions(imitator: Any, obs: Any, n: int) -> Tensor:
    """Sample n actions from the imitator for each observation, [n, N, ...]."""
    if isinstance(imitator, ConditionalVAE):
        return imitator.draw(obs, n)
    drawn: Tensor = fast_forward(imitator, obs).sample((n,))
    return drawn


# Functions for actor-critics that also train an imitator


def take_imitator(
    agent: Any, imitator: nn.Module, optimizer: torch.optim.Optimizer, beta: float, rl_start_step: float
) -> None:
    """Store the imitator arguments of an agent. The agent's constructor calls this function first.

    Args:
        agent: The agent. The function sets the attribute `_its_imitator`, which `extra_modules` returns.
        imitator: The imitator.
        optimizer: Optimiser of the imitator.
        beta: Weight of the KL divergence in the loss of a `ConditionalVAE`, at least 0.
        rl_start_step: Number of first updates that train only the imitator.

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
        step: Function that makes a gradient step on a loss.
        found: TD errors and statistics of the other gradient steps. None if only the imitator is trained; the errors of
            the imitator are then returned.
    """
    loss, error = imitation_loss(agent.imitator, batch, agent.beta, agent.batch_accumulator)
    step("imitator_optimizer", loss)
    td_error, stats = found or (error, {"loss": loss.detach()})
    return td_error, {**stats, "imitator_loss": loss.detach()}


def learn_imitator_alone(agent: Any, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
    """Update only the imitator, as before `rl_start_step`; return its errors [N] and the statistics."""
    return agent._run_update_step(batch.replace(action=batch.action.float()), False, True)  # type: ignore[no-any-return]


def try_imitator(agent: Any, batch: Batch) -> None:
    """Raise if the imitator's loss cannot be computed for a batch of two rows.

    Raises:
        TypeError: If the imitator's inputs or outputs have a wrong type.
        ValueError: If observations or actions do not fit the imitator.
    """
    if not isinstance(agent.imitator, ConditionalVAE):
        output: Any = dry_run_output("imitator", agent.imitator, batch, Distribution, "a pfrl_like.nn.ConditionalVAE")
        check_distribution("imitator", output, densities=False, reparametrised=True, instead="another agent")
    else:
        with name_in_errors("imitator.encoder", batch):
            fast_forward(agent.imitator.encoder, (batch.obs, batch.action))
        with name_in_errors("imitator.decoder", batch):
            agent.imitator.draw(batch.obs, 1)
    with name_in_errors("imitator", batch):
        imitation_loss(agent.imitator, batch, agent.beta)


class ChosenAction(DeltaVector):
    """Deterministic distribution of the selected actions, with a function that evaluates other actions.

    Args:
        loc: Selected actions, [N, A].
        score: Function that returns the values of given actions in the same states, [N], for comparison with the
            selected actions.
    """

    def __init__(self, loc: Tensor, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__(loc)
        self.score = score


def chosen(actions: Tensor, values: Tensor) -> Tensor:
    """Select the action with the highest value, [N, A], among actions [M, N, A] with values [M, N]."""
    return actions[values.argmax(0), torch.arange(values.shape[1], device=values.device)]


def most_valued(critic: Any, obs: Any, actions: Tensor) -> ChosenAction:
    """Select the action with the highest critic value in each state, among actions [M, N, A]."""
    score = functools.partial(_value, critic)
    return ChosenAction(chosen(actions, apply_in_chunks(score, obs, actions)), functools.partial(score, obs))


def chosen_for_active(choose: Callable[[Any], DeltaVector], obs: Any, active: Any) -> DeltaVector:
    """Return `choose(obs)` for k observations. Inactive environments get zeros and use no random numbers."""
    if active is None or np.all(active):
        return choose(obs)
    if not np.any(active):
        with isolated_rng():
            return DeltaVector(torch.zeros_like(choose(obs).mode))
    rows = torch.from_numpy(np.flatnonzero(active))
    some = choose(map_nested(lambda leaf: leaf[rows.to(leaf.device)], obs)).mode
    return DeltaVector(scatter_rows(some, rows, len(active)))


def _value(critic: Any, obs: Any, action: Tensor) -> Tensor:
    value: Any = fast_forward(critic, (obs, action))
    return value.reshape(-1) if isinstance(value, Tensor) else mean_value(value)
