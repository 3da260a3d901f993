"""Randomized Ensembled Double Q-learning (Chen et al. 2021, arXiv:2101.05982), and DroQ (arXiv:2110.02034)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from pfrl_like.agents.soft_actor_critic import SoftActorCritic
from pfrl_like.learning.compatibility.arguments import listed, numbered
from pfrl_like.learning.critics import average
from pfrl_like.replay_buffer import AbstractReplayBuffer
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
        n_times_update: Updates of the critics at each updating step.
        policy_update_delay: Updates of the critics for each one of the policy; None for `n_times_update`.
        kwargs: As `SoftActorCritic`, but for `compile`.

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
        **kwargs: Any,
    ) -> None:
        check_counts(subset_size=subset_size)
        critics, optimizers = listed("q_funcs", q_funcs), listed("q_func_optimizers", q_func_optimizers)
        if len(critics) < 2 or subset_size > len(critics):
            raise ValueError(f"there are {len(critics)} q_funcs, expected at least 2 and subset_size, {subset_size}")
        if kwargs.get("compile"):
            raise ValueError("compile is True, but every update of REDQ has other critics in its targets: leave it out")
        q_funcs, q_func_optimizers = ([*named.values()] for named in numbered(critics, optimizers))
        self.subset_size = subset_size
        delay = n_times_update if policy_update_delay is None else policy_update_delay
        super().__init__(
            policy, q_funcs[0], q_funcs[1], policy_optimizer, q_func_optimizers[0], q_func_optimizers[1],
            replay_buffer, gamma,
            further_q_funcs=q_funcs[2:], further_q_func_optimizers=q_func_optimizers[2:],
            n_times_update=n_times_update, policy_update_delay=delay, **kwargs,
        )  # fmt: skip

    def _bootstrap_critics(self) -> Sequence[Any]:
        """`subset_size` of the target critics, drawn from PyTorch's global stream."""
        critics: list[Any] = self.target_critics
        if self.subset_size == len(critics):
            return critics
        return [critics[i] for i in torch.randperm(len(critics))[: self.subset_size].tolist()]
