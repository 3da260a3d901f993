"""Truncated Quantile Critics (Kuznetsov et al. 2020, arXiv:2005.04269)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pfrl_like.action_value import QuantileDiscreteActionValue
from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.functions.losses import truncated_mixture
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.critics import average
from pfrl_like.learning.model_outputs import wrong_critic
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts


class TQC(SoftActorCritic):
    """Soft Actor-Critic with quantile critics. The targets omit the largest quantiles.

    The policy's loss uses the mean over the quantiles of all critics.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action. TQC requires a `QuantileDiscreteActionValue` with one action, for example from a
            `QuantileFCSAQFunction`.
        q_func2: Second critic. None if `q_func1` is a `QFunctionEnsemble` of all critics.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func1` is a `QFunctionEnsemble`.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        gpu: CUDA device index. None or a negative index means the CPU.
        replay_start_size: Value of `len(replay_buffer)` at which updates begin.
        minibatch_size: Number of transitions per update; number of sequences if `recurrent` is True.
        update_interval: Number of steps between updates.
        phi: Feature extractor applied to each observation before the network. The replay buffer stores raw
            observations.
        soft_update_tau: Weight of the online parameters in the soft update of the target networks, in (0, 1]. The soft
            update runs after each update.
        max_grad_norm: Maximum L2 norm of the gradient of each optimiser's parameters; None disables clipping.
        logger: Logger for rejected updates (non-finite loss or gradient).
        batch_states: Function that converts a list of observations to a batch, called as (states, device, phi).
        burnin_action_func: Function that returns one training action. The agent calls the function until the first
            update of the policy. If None, the policy selects all training actions. An actor in another process calls
            the function until the actor receives the parameters of an updated policy. If actions are masked, the
            function must accept the keyword `action_mask`, [n_actions].
        initial_temperature: Initial temperature, positive. If `entropy_target` is None, the temperature stays constant
            and may be 0.
        entropy_target: Target entropy, usually minus the number of action dimensions. The temperature is learnt to keep
            the policy's entropy near the target. None keeps the temperature constant.
        temperature_optimizer_lr: Learning rate of the Adam optimiser of the temperature; None uses Adam's default.
        act_deterministically: True to select the mode of the policy in evaluation, False to sample.
        further_q_funcs: Additional critics. The paper uses five critics in total, each with 25 quantiles.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).
        n_dropped: Number of the largest quantiles to omit from the targets, per critic.

    Raises:
        ValueError: If `n_dropped` is negative, or if another argument is outside its documented range. The message
            contains the value. The error is also raised when a run begins, or at the first update, if `n_dropped`
            leaves no quantile.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown. The
            error is also raised when a run begins, if a critic returns no quantiles.
    """

    _policy_pool = staticmethod(average)
    _critic_type = QuantileDiscreteActionValue

    def __init__(
        self,
        policy: nn.Module,
        q_func1: nn.Module,
        q_func2: nn.Module | None,
        policy_optimizer: torch.optim.Optimizer,
        q_func1_optimizer: torch.optim.Optimizer,
        q_func2_optimizer: torch.optim.Optimizer | None,
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 100,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        initial_temperature: float = 1.0,
        entropy_target: float | None = None,
        temperature_optimizer_lr: float | None = None,
        act_deterministically: bool = True,
        *,
        further_q_funcs: Sequence[nn.Module] = (),
        further_q_func_optimizers: Sequence[torch.optim.Optimizer] = (),
        n_times_update: int = 1,
        policy_update_delay: int = 1,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
        n_dropped: int = 2,
    ) -> None:
        check_counts(least=0, n_dropped=n_dropped)
        self.n_dropped = n_dropped
        super().__init__(**arguments_for(SoftActorCritic, locals()))

    def _pool(self, values: Sequence[Any]) -> QuantileDiscreteActionValue:
        """Combine the critics' quantiles with `truncated_mixture`, which omits the largest quantiles."""
        for value in values:
            if not isinstance(value, self._critic_type):
                raise wrong_critic(type(value), self._critic_type)
        mixture = truncated_mixture([value.quantiles.squeeze(2) for value in values], self.n_dropped)
        return QuantileDiscreteActionValue(mixture.unsqueeze(2))
