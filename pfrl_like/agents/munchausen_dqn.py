"""Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430)."""

import logging
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.explorer import Explorer
from pfrl_like.functions.losses import td_target
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_positive
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states


def munchausen_target(
    value: Any, next_value: Any, batch: Batch, alpha: float, entropy_temperature: float, log_policy_min: float
) -> Tensor:
    """Compute R + alpha * clip(tau * log pi(a|s), l_0, 0) + discount * tau * logsumexp(Q'(s', .) / tau), [N] (eq. 2).

    pi is softmax(Q' / tau) over the allowed actions. The logsumexp term is the soft value of pi. With n-step returns,
    only the log-probability of the first action is added.

    Args:
        value: Q'(s, .) of the target network.
        next_value: Q'(s', .).
        batch: Transitions or sequences.
        alpha: Weight of the clipped log-probability.
        entropy_temperature: Temperature tau.
        log_policy_min: Lower bound l_0 of the scaled log-probability.
    """
    tau = entropy_temperature
    logits, next_logits = (each.without_forbidden(each.q_values / tau) for each in (value, next_value))
    log_policy = logits.log_softmax(1).gather(1, batch.action.long().unsqueeze(1)).squeeze(1)
    bonus = alpha * torch.clamp(tau * log_policy, log_policy_min, 0.0)
    return td_target(batch.reward + bonus, batch.discount, tau * next_logits.logsumexp(1))


class MunchausenDQN(DQN):
    """DQN that adds the scaled log-probability of its softmax policy to the reward and bootstraps from soft values.

    The agent explores with its explorer and acts greedily in evaluation, like `DQN`.

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
        alpha: Weight of the scaled log-probability in the reward, from 0 (soft DQN) to 1.
        entropy_temperature: Temperature tau, positive. Larger values make the policy more uniform.
        log_policy_min: Lower bound l_0 of the scaled log-probability, negative.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
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
        alpha: float = 0.9,
        entropy_temperature: float = 0.03,
        log_policy_min: float = -1.0,
    ) -> None:
        self.alpha, self.entropy_temperature, self.log_policy_min = alpha, entropy_temperature, log_policy_min
        check_numbers_in(self, alpha=(0, 1), log_policy_min=(-math.inf, 0))
        check_positive(self, "entropy_temperature")
        super().__init__(**arguments_for(DQN, locals()))

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """Compute the targets with `munchausen_target`; see `dqn_loss` for the arguments."""
        return munchausen_target(value, next_value, batch, self.alpha, self.entropy_temperature, self.log_policy_min)
