"""Randomized Ensembled Double Q-learning (Chen et al. 2021, arXiv:2101.05982), and DroQ (arXiv:2110.02034)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.learning.compatibility.arguments import arguments_for, listed, numbered
from pfrl_like.learning.critics import average
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_counts


class REDQ(SoftActorCritic):
    """Soft Actor-Critic with an ensemble of critics and many updates a step.

    Targets are the least value of a few critics, drawn anew for each update. The policy follows the mean of all
    critics, and learns once a step. With two critics that have dropout and layer normalisation
    (`DropoutFCSAQFunction`) it is DroQ. Target networks are evaluated without dropout.

    Args:
        policy: Module from observations to distributions of actions, such as one that ends in a `SquashedGaussianHead`.
        q_funcs: The critics, a list of at least two.
        policy_optimizer: Optimiser of the policy.
        q_func_optimizers: The optimisers of the critics.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        subset_size: Number of critics drawn for the targets of each update, at most all.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of policy and temperature; None for `n_times_update`.
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
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Not supported, since every update has other critics in its targets: False.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _policy_pool = staticmethod(average)

    def __init__(
        self,
        policy: nn.Module,
        q_funcs: Sequence[nn.Module],
        policy_optimizer: torch.optim.Optimizer,
        q_func_optimizers: Sequence[torch.optim.Optimizer],
        replay_buffer: AbstractReplayBuffer,
        gamma: float,
        *,
        subset_size: int = 2,
        n_times_update: int = 20,
        policy_update_delay: int | None = None,
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
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        check_counts(subset_size=subset_size)
        critics, optimizers = listed("q_funcs", q_funcs), listed("q_func_optimizers", q_func_optimizers)
        if len(critics) < 2 or subset_size > len(critics):
            raise ValueError(f"there are {len(critics)} q_funcs, expected at least 2 and subset_size, {subset_size}")
        if compile:
            raise ValueError("compile is True, but every update of REDQ has other critics in its targets: leave it out")
        critics, optimizers = numbered(critics, optimizers)
        q_func1, q_func2, *further_q_funcs = critics.values()
        q_func1_optimizer, q_func2_optimizer, *further_q_func_optimizers = optimizers.values()
        self.subset_size = subset_size
        policy_update_delay = n_times_update if policy_update_delay is None else policy_update_delay
        super().__init__(**arguments_for(SoftActorCritic, locals()))

    def _bootstrap_critics(self) -> Sequence[Any]:
        """`subset_size` of the target critics, drawn from PyTorch's global stream."""
        critics: list[Any] = self.target_critics
        if self.subset_size == len(critics):
            return critics
        return [critics[i] for i in torch.randperm(len(critics))[: self.subset_size].tolist()]
