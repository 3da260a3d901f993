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
    """Soft Actor-Critic with critics of quantiles; the targets leave the largest quantiles out.

    The policy follows the mean of all critics' quantiles.

    Args:
        policy: Module from observations to distributions of actions, such as one that ends in a `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it gives numbers [N, 1], or an action value of one
            action. Here it gives a `QuantileDiscreteActionValue` of one action, as a `QuantileFCSAQFunction` does.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if the first is a `QFunctionEnsemble`.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: Largest L2 norm of each network's gradient, and of the temperature's; None for no clipping.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        initial_temperature: First temperature, positive. Without an `entropy_target` it stays the same, and may be 0.
        entropy_target: Entropy at which the policy is held by learning the temperature; minus the number of dimensions
            of actions is usual. None keeps the temperature.
        temperature_optimizer_lr: Learning rate of the temperature's Adam; None for Adam's own default.
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: More critics; the paper has five of 25 quantiles in all.
        further_q_func_optimizers: Their optimisers.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of policy and temperature.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).
        n_dropped: Number of quantiles that the targets leave out for each critic.

    Raises:
        ValueError: If `n_dropped` is negative, or on values outside those named here, with the value got; when a
            run begins, or at the first update, if no quantile is left.
        TypeError: If the parts do not fit together, or on an unknown keyword; when a run begins, if a critic gives no
            quantiles.
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
        """`truncated_mixture` of the critics' quantiles."""
        for value in values:
            if not isinstance(value, self._critic_type):
                raise wrong_critic(type(value), self._critic_type)
        mixture = truncated_mixture([value.quantiles.squeeze(2) for value in values], self.n_dropped)
        return QuantileDiscreteActionValue(mixture.unsqueeze(2))
