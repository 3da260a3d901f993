"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

from torch import Tensor

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.functions.losses import categorical_projection, weighted_mean


class CategoricalDQN(DQN):
    """DQN with a Q-function that gives a `DistributionalDiscreteActionValue`.

    Arguments as `DQN`; `clip_delta` is accepted for PFRL's sake and ignored, since the loss is a cross entropy. What
    the class adds to `DQN` is the check that the Q-function is of that kind.

    Raises:
        TypeError: If it is of another one; of a network that does not declare what it gives, when a runner meets the
            agent or at the first update.
    """

    value_type = DistributionalDiscreteActionValue


# PFRL's functions, for code that was written for PFRL


def compute_value_loss(eltwise_loss: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Sum over the atoms, then "mean" or "sum" over the minibatch, of losses [B, n_atoms].

    Raises:
        ValueError: On another `batch_accumulator`.
    """
    return weighted_mean(eltwise_loss.sum(1), None, batch_accumulator)


def compute_weighted_value_loss(
    eltwise_loss: Tensor, batch_size: int, weights: Tensor, batch_accumulator: str = "mean"
) -> Tensor:
    """`compute_value_loss` with importance weights, [B]; `batch_size` is what the mean divides by.

    Raises:
        ValueError: On another `batch_accumulator`.
    """
    loss = weighted_mean(eltwise_loss.sum(1), weights.to(eltwise_loss.device), batch_accumulator)
    return loss * (len(eltwise_loss) / batch_size) if batch_accumulator == "mean" else loss


def _apply_categorical_projection(y: Tensor, y_probs: Tensor, z: Tensor) -> Tensor:
    """`categorical_projection` of masses `y_probs` at the values `y` onto the atoms `z`."""
    return categorical_projection(z, y, y_probs)
