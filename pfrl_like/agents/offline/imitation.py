"""Losses of models that imitate recorded actions, and selection of the best of several sampled actions."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from pfrl_like.action_value import soft_min_of
from pfrl_like.agents.offline.bc import bc_loss
from pfrl_like.batch import Batch, map_nested
from pfrl_like.distributions import DeltaVector, parameters_of, with_parameters
from pfrl_like.functions.losses import squared_distance, weighted_mean
from pfrl_like.learning.acting import scatter_rows
from pfrl_like.learning.compatibility.dry_run import dry_run_output, name_in_errors
from pfrl_like.learning.compatibility.parts import check_distribution, check_numbers_in
from pfrl_like.learning.critics import average, mean_value, value_of, values_of_actions
from pfrl_like.learning.model_outputs import obs_in_errors
from pfrl_like.nn import ConditionalVAE
from pfrl_like.nn.fast_forward import apply_in_chunks, fast_forward
from pfrl_like.optimizers.compiled_step import Step, Update
from pfrl_like.random_streams.streams import isolated_rng


def conditional_vae_loss(imitator: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """Return the squared error of the reconstructed actions + beta * KL(N(mean, std) || N(0, 1)).

    Each of the two terms is averaged over its components (arXiv:1812.02900, appendix D).

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
    """Return the result of `conditional_vae_loss` if the imitator is a `ConditionalVAE`, otherwise of `bc_loss`."""
    if isinstance(imitator, ConditionalVAE):
        return conditional_vae_loss(imitator, batch, beta, accumulator)
    return bc_loss(imitator, batch, accumulator)


@torch.no_grad()
def imitated_actions(imitator: Any, obs: Any, n: int) -> Tensor:
    """Sample n actions from the imitator for each observation, [n, N, ...]."""
    if isinstance(imitator, ConditionalVAE):
        return imitator.draw(obs, n)
    actions: Tensor = fast_forward(imitator, obs).sample((n,))
    return actions


# Functions for actor-critics that also train an imitator


def store_imitator(
    agent: Any, imitator: nn.Module, optimizer: torch.optim.Optimizer, beta: float, rl_start_step: float
) -> None:
    """Store an agent's arguments that concern the imitator. This function runs before the base constructor.

    Args:
        agent: The agent. Its method `extra_modules` returns the stored imitator and optimiser.
        imitator: The imitator.
        optimizer: Optimiser of the imitator.
        beta: Weight of the KL divergence in the loss of a `ConditionalVAE`, at least 0.
        rl_start_step: Number of initial updates that train only the imitator.

    Raises:
        ValueError: If `beta` or `rl_start_step` is negative.
    """
    agent.beta, agent.rl_start_step = beta, rl_start_step
    check_numbers_in(agent, beta=(0, None), rl_start_step=(0, None))
    agent._imitator_parts = {"imitator": imitator}, {"imitator_optimizer": optimizer}


def step_imitator(agent: Any, batch: Batch, step: Step, learn: Callable[[], Update] | None) -> Update:
    """Minimise the imitator's loss, and return TD errors, [N], and statistics of the whole update.

    Args:
        agent: The agent.
        batch: Minibatch of features.
        step: Function called as `step(optimizer_name, loss)`. It makes a gradient step.
        learn: Function that updates critics and policy, and returns TD errors and statistics. It runs before the
            imitator's step, or after this step if `agent.imitates_first` is True. If None, only the imitator is
            trained, and the function returns the imitator's loss of each row instead of TD errors.
    """
    result = None if learn is None or agent.imitates_first else learn()
    loss, error = imitation_loss(agent.imitator, batch, agent.beta, agent.batch_accumulator)
    step("imitator_optimizer", loss)
    if learn is not None and agent.imitates_first:
        result = learn()
    td_error, stats = result or (error, {"loss": loss.detach()})
    return td_error, {**stats, "imitator_loss": loss.detach()}


def check_autoencoder(imitator: nn.Module) -> None:
    """Check the class of an imitator.

    Raises:
        TypeError: If the imitator is not a `ConditionalVAE`. The message names the argument.
    """
    if not isinstance(imitator, ConditionalVAE):
        raise TypeError(f"imitator is {type(imitator).__name__}, expected a pfrl_like.nn.ConditionalVAE")


def dry_run_decoder(imitator: nn.Module, obs: Any) -> None:
    """Raise an error if the imitator cannot act for the features of one observation, [1, ...]."""
    with obs_in_errors("imitator.decoder", obs), torch.no_grad(), isolated_rng():
        imitated_actions(imitator, obs, 1)


def dry_run_imitator(agent: Any, batch: Batch) -> None:
    """Compute the imitator's loss for a batch of two rows, to find errors before training.

    Raises:
        TypeError: If the imitator's inputs or outputs have a wrong type.
        ValueError: If observations or actions do not have the shape that the imitator expects.
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
    """Deterministic distribution of the selected actions.

    The function `score` evaluates other actions in the same states.

    Args:
        loc: Selected actions, [N, A].
        score: Function from actions, [N, A], to the critic's values of these actions, [N], in the states in which `loc`
            was selected.
    """

    def __init__(self, loc: Tensor, score: Callable[[Tensor], Tensor]) -> None:
        super().__init__(loc)
        self.score = score


def best_next_value(target_critics: Sequence[Any], batch: Batch, actions: Tensor, lam: float) -> tuple[Any, Tensor]:
    """Return the value of the best of M actions in each next state, and the indices of the best actions, [N].

    The value of an action is lam * min_i Q_i' + (1 - lam) * max_i Q_i', where i runs over the target critics.

    Args:
        target_critics: Target networks of the critics.
        batch: Transitions.
        actions: Actions in the next states, [M, N, A].
        lam: Weight of the minimum over the critics. The maximum over the critics has the weight 1 - lam.

    Returns:
        The values of the best actions, as an `ActionValue` with one action per row, and their indices, [N].
    """
    values = torch.stack([values_of_actions(critic, batch, actions, next=True) for critic in target_critics])
    index = torch.lerp(values.amax(0), values.amin(0), lam).argmax(0)
    best = of_each_state(actions, index)
    return soft_min_of([value_of(critic, batch, best, next=True) for critic in target_critics], lam), index


def of_each_state(items: Tensor, index: Tensor) -> Tensor:
    """Return one item of each of N states, [N, ...].

    `items` has the shape [M, N, ...], `index` [N].
    """
    return items[index, torch.arange(index.shape[0], device=index.device)]  # a trace makes len(index) a constant


def select_best(critic: Any, obs: Any, actions: Tensor) -> ChosenAction:
    """Select the action with the highest value in each of N states. `actions` are M actions per state, [M, N, A]."""
    score = functools.partial(_value, critic)
    best = of_each_state(actions, apply_in_chunks(score, obs, actions).argmax(0))
    return ChosenAction(best, functools.partial(score, obs))


def sample_per_state(distribution: Any, n: int) -> Tensor:
    """Sample n actions in each of N states, [n, N, A].

    The generator draws all n samples of the first state, then all samples of the second state, and so on.
    """
    rows = with_parameters(distribution, *(each.repeat_interleave(n, 0) for each in parameters_of(distribution)))
    samples: Tensor = rows.sample()
    return samples.reshape(-1, n, *samples.shape[1:]).transpose(0, 1)


def resample(critics: Sequence[Any], obs: Any, actions: Tensor) -> DeltaVector:
    """Draw one of M actions in each of N states, with the probabilities softmax(Q) (arXiv:2006.15134, section 3.3).

    Args:
        critics: Critics. Q is the mean of their values.
        obs: Features of N observations.
        actions: M actions per state, [M, N, A].
    """
    q = average([apply_in_chunks(functools.partial(_value, critic), obs, actions) for critic in critics])
    reached = q.T.softmax(1).cumsum(1)  # `export` knows `rand_like`, unlike `multinomial`
    index = (reached < torch.rand_like(reached[:, :1])).sum(1).clamp_max(len(actions) - 1)
    return DeltaVector(of_each_state(actions, index))


def select_for_active(select: Callable[[Any], DeltaVector], obs: Any, active: Any) -> DeltaVector:
    """Return the actions that `select` chooses for the observations of k environments.

    Inactive environments get zero actions and use no random numbers.
    """
    if active is None or np.all(active):
        return select(obs)
    if not np.any(active):
        with isolated_rng():
            return DeltaVector(torch.zeros_like(select(obs).mode))
    rows = torch.from_numpy(np.flatnonzero(active))
    selected = select(map_nested(lambda leaf: leaf[rows.to(leaf.device)], obs)).mode
    return DeltaVector(scatter_rows(selected, rows, len(active)))


def _value(critic: Any, obs: Any, action: Tensor) -> Tensor:
    value: Any = fast_forward(critic, (obs, action))
    return value.reshape(-1) if isinstance(value, Tensor) else mean_value(value)
