"""Categorical DQN, C51 (Bellemare et al. 2017, arXiv:1707.06887)."""

from torch import Tensor

from pfrl_like.action_value import DistributionalDiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.functions.losses import categorical_projection, weighted_mean


class CategoricalDQN(DQN):
    """DQN with a Q-function that gives a `DistributionalDiscreteActionValue`.

    The class adds to `DQN` only the check that the Q-function gives such action values.

    Args:
        q_function: Module from observations to an `ActionValue`. The value has to be a
            `DistributionalDiscreteActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        explorer: Chooses the action in training.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        target_update_interval: Steps between updates of the target network; a multiple of `update_interval`.
        clip_delta: Huber loss if True, half the squared error otherwise; without effect on distributional losses.
            Accepted for compatibility with PFRL and ignored here, since the loss is a cross entropy.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        target_update_method: "hard" copies the parameters, "soft" moves the target's towards them.
        soft_update_tau: How far a soft update moves, in (0, 1].
        n_times_update: Updates at each updating step.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        recurrent: The Q-function has the interface of `pfrl_like.nn.Recurrent`, and is trained on sequences.
        max_grad_norm: Largest L2 norm of the gradient; None for no clipping.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        burn_in: First steps of each sequence that only bring the recurrent state up to date and are not learnt from.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent) and the choice of greedy actions.
            The second update compiles, and the second choice for each number of observations, in about half a minute
            each, and says so in the log (level INFO).

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
