"""Implicit Quantile Networks (Dabney et al. 2018, arXiv:1806.06923)."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import ImplicitQuantileActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import quantile_huber_of_pairs, weighted_mean
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.q_functions.quantile_q_functions import CosineBasisLinear as CosineBasisLinear
from pfrl_like.q_functions.quantile_q_functions import ImplicitQuantileQFunction as ImplicitQuantileQFunction
from pfrl_like.q_functions.quantile_q_functions import (
    RecurrentImplicitQuantileQFunction as RecurrentImplicitQuantileQFunction,
)
from pfrl_like.q_functions.quantile_q_functions import cosine_basis_functions as cosine_basis_functions
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


class IQN(DQN):
    """DQN with a Q-function that gives an `ImplicitQuantileActionValue`, which computes the loss.

    Args:
        q_function: Module from observations to an `ActionValue`. It is or holds an `ImplicitQuantileQFunction`, for
            which the numbers below are set.
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
            Without effect here, since the loss is the quantile Huber loss.
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
        quantile_thresholds_N: Number of fractions drawn for the quantiles that are learnt. None keeps the number that
            the Q-function was made with, 64 by default.
        quantile_thresholds_N_prime: Number of fractions drawn for the quantiles of the next state. None keeps the
            number that the Q-function was made with, 64 by default.
        quantile_thresholds_K: Number of fractions drawn for the greedy action. None keeps the number that the
            Q-function was made with, 32 by default.
        act_deterministically: In evaluation act on K evenly spaced fractions, (i + 0.5) / K, instead of random ones.

    Raises:
        ValueError: If one of the numbers is below 1, or on values outside those named here, with the value got.
        TypeError: If a number is given for a Q-function that draws no fractions, if the Q-function gives something else
            (at the first observation or update), if the parts do not fit together, or on an unknown keyword.
    """

    value_type = ImplicitQuantileActionValue

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
        quantile_thresholds_N: int | None = None,
        quantile_thresholds_N_prime: int | None = None,
        quantile_thresholds_K: int | None = None,
        act_deterministically: bool = False,
    ) -> None:
        super().__init__(**arguments_for(DQN, locals()))
        self.act_deterministically = act_deterministically
        counts = {"N": quantile_thresholds_N, "N_prime": quantile_thresholds_N_prime, "K": quantile_thresholds_K}
        given = {name: count for name, count in counts.items() if count is not None}
        parts = [*self.model.modules(), *self.target_model.modules()]
        drawing = [part for part in parts if isinstance(part, ImplicitQuantileQFunction)]
        if given and not drawing:
            raise TypeError(
                f"quantile_thresholds_{next(iter(given))} is given, but q_function is {type(self.model).__name__}, "
                "which holds no ImplicitQuantileQFunction"
            )
        for part in drawing:
            part.set_thresholds(**given)

    def _value(self, obs: Any, active: Any = None) -> Any:
        value = super()._value(obs, active)
        return value.at_even_fractions() if self.act_deterministically and not self.training else value


# PFRL's functions, for code that was written for PFRL


def compute_eltwise_huber_quantile_loss(y: Tensor, t: Tensor, taus: Tensor) -> Tensor:
    """Quantile Huber losses of all pairs, [B, N, N'], by `quantile_huber_of_pairs`.

    Args:
        y: Predicted quantiles, [B, N].
        t: Quantiles of the target, [B, N'].
        taus: Fractions of the predicted quantiles, [B, N].
    """
    return quantile_huber_of_pairs(y, t, taus)


def compute_value_loss(eltwise_loss: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """Losses [B, N, N'] averaged over N' and summed over N, with their "mean" or "sum" over the minibatch.

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), None, batch_accumulator)


def compute_weighted_value_loss(eltwise_loss: Tensor, weights: Tensor, batch_accumulator: str = "mean") -> Tensor:
    """`compute_value_loss` with importance weights, [B].

    Raises:
        ValueError: If `batch_accumulator` is something else.
    """
    return weighted_mean(eltwise_loss.mean(2).sum(1), weights, batch_accumulator)
