"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

from torch import Tensor

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.functions.losses import categorical_projection, weighted_mean


class CategoricalDQN(DQN):
    """DQN with a Q-function that gives a `DistributionalDiscreteActionValue`.

    The arguments are those of `DQN`; `clip_delta` is accepted for compatibility with PFRL and ignored, since the loss
    is a cross entropy. The class adds to `DQN` only the check that the Q-function gives such action values.

    Raises:
        TypeError: If the Q-function gives another action value. For a network that does not declare its output, this is
            seen when a run begins or at the first update.
    """

    value_type = DistributionalDiscreteActionValue


# PFRL's functions, for code that was written for PFRL


def compute_value_loss(eltwise_loss: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Losses [B, n_atoms] summed over the atoms, with their "mean" or "sum" over the minibatch.

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    return weighted_mean(eltwise_loss.sum(1), None, batch_accumulator)


def compute_weighted_value_loss(
    eltwise_loss: Tensor, batch_size: int, weights: Tensor, batch_accumulator: str = "mean"
) -> Tensor:
    """`compute_value_loss` with importance weights, [B]; the mean divides by `batch_size`.

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    loss = weighted_mean(eltwise_loss.sum(1), weights.to(eltwise_loss.device), batch_accumulator)
    return loss * (len(eltwise_loss) / batch_size) if batch_accumulator == "mean" else loss


def _apply_categorical_projection(y: Tensor, y_probs: Tensor, z: Tensor) -> Tensor:
    """`categorical_projection` of masses `y_probs` at the values `y` onto the atoms `z`."""
    return categorical_projection(z, y, y_probs)
