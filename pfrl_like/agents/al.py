"""Advantage Learning (Bellemare et al. 2016, arXiv:1512.04860)."""

import logging
import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import advantage_learning_target
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


class AL(DQN):
    """DQN whose targets subtract a part of the action gap, so that the best action stands out from the others.

    Args:
        q_function: Module from observations to an `ActionValue`.
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
        alpha: Weight of the advantage, in [0, 1); 0 is DQN.

    Raises:
        ValueError: If `alpha` is not in [0, 1), or on values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    def __init__(
        self,
        q_function: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        explorer: Explorer,
        gpu: int | None = None,
        replay_start_size: int = 50000,
        minibatch_size: int = 32,
        update_interval: int = 1,
        target_update_interval: int = 10000,
        clip_delta: bool = True,
        phi: Callable[[Any], Any] | None = None,
        target_update_method: str = "hard",
        soft_update_tau: float = 1e-2,
        n_times_update: int = 1,
        batch_accumulator: str = "mean",
        episodic_update_len: int | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        recurrent: bool = False,
        max_grad_norm: float | None = None,
        *,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        burn_in: int = 0,
        compile: bool = False,
        alpha: float = 0.9,
    ) -> None:
        self.alpha = checked_alpha(alpha)
        super().__init__(**arguments_for(DQN, locals()))

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`advantage_learning_target` of the target network's values."""
        gap = -value.compute_advantage(batch.action)
        return advantage_learning_target(batch.reward, batch.discount, bootstrap, gap, self.alpha)


def checked_alpha(alpha: float) -> float:
    """Return `alpha`, the weight of an advantage, if it is in [0, 1).

    Raises:
        ValueError: If it is not.
    """
    if not (isinstance(alpha, numbers.Real) and 0 <= alpha < 1):
        raise ValueError(f"alpha is {alpha!r}, expected a number from 0 to below 1")
    return alpha
