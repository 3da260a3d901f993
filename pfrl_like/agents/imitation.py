"""How recorded actions are modelled by agents that keep to them: conditional autoencoders, or distributions."""

from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.bc import bc_loss
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import weighted_mean
from pfrl_like.functions.offline import squared_distance
from pfrl_like.nn import ConditionalVAE
from pfrl_like.utils.direct_call import call


def conditional_vae_loss(imitator: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """Squared error of the actions made anew + beta * KL(N(mean, std) || N(0, 1)), each averaged over its numbers.

    (arXiv:1812.02900, appendix D.)

    Args:
        imitator: A `ConditionalVAE`, which takes the gradient.
        batch: Transitions.
        beta: Weight of the divergence.
        accumulator: "mean" or "sum" over the rows.

    Returns:
        The scalar loss (weighted if the batch has weights), and detached: the loss of each row, [N].
    """
    action, mean, log_std = call(imitator, (batch.obs, batch.action))
    divergence = 0.5 * (mean.square() + (2 * log_std).exp() - 1) - log_std
    loss = squared_distance(action, batch.action) / batch.action[0].numel() + beta * divergence.mean(1)
    return weighted_mean(loss, batch.weight, accumulator), loss.detach()


def imitation_loss(imitator: Any, batch: Batch, beta: float, accumulator: str = "mean") -> tuple[Tensor, Tensor]:
    """`conditional_vae_loss` of an autoencoder, `bc_loss` of a policy that gives distributions; arguments as there."""
    if isinstance(imitator, ConditionalVAE):
        return conditional_vae_loss(imitator, batch, beta, accumulator)
    return bc_loss(imitator, batch, accumulator)


@torch.no_grad()
def imitated_actions(imitator: Any, obs: Any, n: int) -> Tensor:
    """N actions for each observation as the imitator would act, [n, N, ...]."""
    if isinstance(imitator, ConditionalVAE):
        return imitator.draw(obs, n)
    drawn: Tensor = call(imitator, obs).sample((n,))
    return drawn
