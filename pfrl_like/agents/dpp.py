"""Dynamic Policy Programming (Azar et al. 2012, arXiv:1004.2027)."""

import logging
import math
import numbers
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import ActionValue, DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import dynamic_policy_programming_target
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


class AbstractDPP(DQN):
    """DQN that learns action preferences. The preferences of suboptimal actions keep decreasing.

    The target of a preference P(s, a) is the target of Q-learning plus P(s, a) - V(s), computed with the target
    network. Therefore each update of the target network adds another P(s, a) - V(s) to the learnt preference.
    Subclasses define the state value V.

    Args:
        q_function: Module from observations to an `ActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
    """

    @abstractmethod
    def _state_value(self, value: Any) -> Tensor:
        """Return the value of each state, computed from the preferences of its actions, [B]."""

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """Compute the targets with `dynamic_policy_programming_target`; see `dqn_loss` for the arguments."""
        preference, next_v = value.evaluate_actions(batch.action), self._state_value(next_value)
        v = self._state_value(value)
        return dynamic_policy_programming_target(batch.reward, batch.discount, next_v, preference, v)


class DPP(AbstractDPP):
    """Dynamic Policy Programming whose state value is the mean under softmax(eta * preferences), M_eta in the paper.

    Args:
        q_function: Module from observations to an `ActionValue`. The value must be a `DiscreteActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
        eta: Inverse temperature of the state value, positive. A large value approaches the maximum.

    Raises:
        ValueError: If `eta` is not positive and finite, or if another argument is outside its documented range. The
            message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
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

    def _state_value(self, value: DiscreteActionValue) -> Tensor:
        """Return the mean of the preferences under the softmax, [B]."""
        return value.compute_expectation(self.eta)


class DPPL(AbstractDPP):
    """Dynamic Policy Programming whose state value is log(sum(exp(eta * preferences))) / eta, L_eta in the paper.

    Args:
        q_function: Module from observations to an `ActionValue`. The value must be a `DiscreteActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
        eta: Inverse temperature of the state value, positive. A large value approaches the maximum.

    Raises:
        ValueError: If `eta` is not positive and finite, or if another argument is outside its documented range. The
            message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
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

    def _state_value(self, value: DiscreteActionValue) -> Tensor:
        """Return the soft maximum of the preferences, [B]."""
        return value.without_forbidden(self.eta * value.q_values).logsumexp(1) / self.eta


class DPPGreedy(AbstractDPP):
    """Dynamic Policy Programming whose state value is the maximum preference, as in `DPP` with an infinite `eta`.

    Args:
        q_function: Module from observations to an `ActionValue`.
        optimizer: Optimiser of the Q-function's parameters.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        explorer: Explorer that selects the training action.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        target_update_interval: Number of steps between updates of the target network; must be a multiple of
            `update_interval`.
        clip_delta: Loss of a Q-function that is not distributional: True for the Huber loss, False for half the squared
            error.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        target_update_method: "hard" copies the online parameters to the target network. "soft" moves each target
            parameter by the fraction `soft_update_tau` of its distance to the online parameter.
        soft_update_tau: Weight of the online parameters in a soft update, in (0, 1].
        n_times_update: Number of updates every `update_interval` steps.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        recurrent: True to train the Q-function on sequences. The Q-function must have the interface of
            `pfrl_like.nn.Recurrent`.
        max_grad_norm: Maximum L2 norm of the gradient; None disables clipping.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        burn_in: Number of initial steps of each sequence that only warm up the recurrent state. The loss ignores these
            steps.
        compile: True to compile the update and the selection of greedy actions. Requires Adam, AdamW, RMSprop or SGD,
            and `recurrent=False`. The update is compiled when it runs for the second time. The selection is compiled
            separately for each batch size, when the batch size occurs for the second time. Each compilation takes about
            30 s and is logged (level INFO).
    """

    def _state_value(self, value: ActionValue) -> Tensor:
        """Return the maximum preference, [B]."""
        return value.max


def _checked_eta(eta: float) -> float:
    if not (isinstance(eta, numbers.Real) and 0 < eta < math.inf):
        raise ValueError(f"eta is {eta!r}, expected a finite number above 0")
    return eta
