"""Dynamic Policy Programming (Azar et al. 2012, arXiv:1004.2027)."""

import logging
import math
import numbers
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import dynamic_policy_programming_target
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


class AbstractDPP(DQN):
    """DQN that learns action preferences, which keep falling for suboptimal actions.

    The difference between an action's preference and the value of its state adds up over the updates of the target
    network. Subclasses define the value of a state.

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
    """

    @abstractmethod
    def _state_value(self, value: Any) -> Tensor:
        """Value of each state, computed from its preferences, [B]."""

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`dynamic_policy_programming_target` of the target network's values; chooses no next action."""
        return dynamic_policy_programming_target(
            batch.reward,
            batch.discount,
            self._state_value(next_value),
            value.evaluate_actions(batch.action),
            self._state_value(value),
        )


class DPP(AbstractDPP):
    """Dynamic Policy Programming whose state value is the mean under softmax(eta * preferences), the paper's M_eta.

    Args:
        q_function: Module from observations to an `ActionValue`. The value has to be a `DiscreteActionValue`.
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
        eta: Inverse temperature of the softmax, positive.

    Raises:
        ValueError: If `eta` is not positive or is infinite, or on values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    value_type = DiscreteActionValue

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
        eta: float = 1.0,
    ) -> None:
        self.eta = _checked_eta(eta)
        super().__init__(**arguments_for(DQN, locals()))

    def _state_value(self, value: Any) -> Tensor:
        """Mean under the softmax, [B]."""
        mean: Tensor = value.compute_expectation(self.eta)
        return mean


class DPPL(AbstractDPP):
    """Dynamic Policy Programming whose state value is log(sum(exp(eta * preferences))) / eta, the paper's L_eta.

    Args:
        q_function: Module from observations to an `ActionValue`. The value has to be a `DiscreteActionValue`.
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
        eta: Inverse temperature of the soft maximum, positive.

    Raises:
        ValueError: If `eta` is not positive or is infinite, or on values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    value_type = DiscreteActionValue

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
        eta: float = 1.0,
    ) -> None:
        self.eta = _checked_eta(eta)
        super().__init__(**arguments_for(DQN, locals()))

    def _state_value(self, value: Any) -> Tensor:
        """Soft maximum, [B]."""
        maximum: Tensor = value.without_forbidden(self.eta * value.q_values).logsumexp(1) / self.eta
        return maximum


class DPPGreedy(AbstractDPP):
    """Dynamic Policy Programming whose state value is the largest preference, as in `DPP` with an infinite `eta`.

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
    """

    def _state_value(self, value: Any) -> Tensor:
        """Largest preference, [B]."""
        largest: Tensor = value.max
        return largest


def _checked_eta(eta: float) -> float:
    if not (isinstance(eta, numbers.Real) and 0 < eta < math.inf):
        raise ValueError(f"eta is {eta!r}, expected a finite number above 0")
    return eta
