"""Advantage-Weighted Actor-Critic (arXiv:2006.09359) and Critic Regularized Regression (arXiv:2006.15134)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.agents.offline.advantage_weighted import AdvantageWeightedActorCritic, sampled_advantage
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import exponential_weight
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.compatibility.parts import check_positive
from pfrl_like.learning.critics import Targets
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.checks import check_choice, check_counts


class AWAC(AdvantageWeightedActorCritic):
    """Advantage-Weighted Actor-Critic: recorded actions have the weights min(exp(A(s, a) / lam), max_weight).

    The advantage A is Q(s, a) less the mean value of actions drawn from the policy.

    Args:
        policy: Module from observations to distributions of actions with densities, such as one that ends in a
            `GaussianHeadWithStateIndependentCovariance`.
        q_func1: First critic, called as `q_func1((obs, action))`; it gives numbers [N, 1], or an action value of one
            action.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: Largest L2 norm of each network's gradient; None for no clipping.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: More critics; targets are the least value of all.
        further_q_func_optimizers: Their optimisers.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of the policy.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).
        lam: Temperature of the weights, positive; the smaller, the more the advantage counts.
        n_action_samples: Actions of the policy drawn in each state.
        max_weight: Largest weight, positive.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

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
        *,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 256,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        act_deterministically: bool = True,
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
        lam: float = 1.0,
        n_action_samples: int = 1,
        max_weight: float = 20.0,
    ) -> None:
        self.lam, self.n_action_samples, self.max_weight = lam, n_action_samples, max_weight
        check_positive(self, "lam", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(**arguments_for(AdvantageWeightedActorCritic, locals()))

    def _weight(self, batch: Batch) -> Tensor:
        """`exponential_weight` of the advantage, [N]."""
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples)
        return exponential_weight(advantage, self.lam, self.max_weight)


#: Reductions of the values of the policy's actions, by `advantage_type`.
EXPECTED: dict[str, Callable[[Tensor, int], Tensor]] = {"mean": torch.mean, "max": torch.amax}


def binary_weight(advantage: Tensor) -> Tensor:
    """1 where the advantage is positive, 0 elsewhere, in its shape (arXiv:2006.15134, eq. 3)."""
    return (advantage > 0).to(advantage.dtype)


class CRR(AdvantageWeightedActorCritic):
    """Critic Regularized Regression: weights recorded actions by their advantage over actions of the policy.

    Critics bootstrap from an action of the policy's target network. With one critic an update equals that of d3rlpy
    2.8. With several critics d3rlpy computes the advantage from their mean value, this agent from the least. d3rlpy
    copies the targets every 100 updates by default.

    Args:
        policy: Module from observations to distributions of actions with densities, such as one that ends in a
            `GaussianHeadWithStateIndependentCovariance`.
        q_func1: First critic, called as `q_func1((obs, action))`; it gives numbers [N, 1], or an action value of one
            action.
        q_func2: Second critic; None if the first is a `QFunctionEnsemble`, which holds all of them.
        policy_optimizer: Optimiser of the policy.
        q_func1_optimizer: Optimiser of the first critic.
        q_func2_optimizer: Optimiser of the second critic; None if `q_func2` is None.
        replay_buffer: Where transitions are stored and sampled from; an episodic one for `recurrent`.
        gamma: Discount factor per step.
        gpu: CUDA device index; None or negative means the CPU.
        replay_start_size: No update while the buffer holds fewer items.
        minibatch_size: Transitions (recurrent: sequences) per update.
        update_interval: Steps between updates.
        phi: Feature extractor applied to each observation on its way to the network; raw observations are stored.
        soft_update_tau: How far the targets move after each update, in (0, 1].
        max_grad_norm: Largest L2 norm of each network's gradient; None for no clipping.
        logger: Logger of refused updates.
        batch_states: Makes a batch of a list of observations, called as (states, device, phi).
        burnin_action_func: Gives the actions in training until the policy has learnt once; None leaves them to the
            policy. In actors of other processes until they get the first parameters thereafter. Where actions are
            masked it has to take the keyword `action_mask`, [n_actions].
        act_deterministically: In evaluation take the mode of the policy, not a sample.
        further_q_funcs: More critics; targets are the least value of all.
        further_q_func_optimizers: Their optimisers.
        n_times_update: Updates at each updating step.
        policy_update_delay: Updates of the critics for each one of the policy.
        batch_accumulator: "mean" or "sum" of the losses over the minibatch.
        recurrent: The policy, and maybe the critic, is recurrent and trained on sequences. Only the policy's state is
            stored; the critic's is the initial one where a sequence begins.
        episodic_update_len: Longest sequence for recurrent updates, in steps; None for whole episodes.
        device: Device as text or `torch.device`, instead of `gpu`.
        num_steps: Steps of the returns in recurrent updates, within each sequence; the action value has to be indexable
            then. Otherwise it is the replay buffer that has such an argument.
        compile: Compile the whole update (Adam, AdamW, RMSprop or SGD; not recurrent). The second update compiles, in
            about half a minute, and says so in the log (level INFO).
        advantage_type: "mean" or "max": the reduction of the drawn actions' values that is subtracted from Q(s, a).
        weight_type: "exp" for min(exp(A / beta), max_weight), "binary" for 1 where A is positive and 0 elsewhere.
        beta: Temperature of the exponential weights, positive; the smaller, the more the advantage counts.
        n_action_samples: Actions of the policy drawn in each state.
        max_weight: Largest exponential weight, positive.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    _targets = Targets(moved="every update")

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
        *,
        gpu: int | None = None,
        replay_start_size: int = 10000,
        minibatch_size: int = 256,
        update_interval: int = 1,
        phi: Callable[[Any], Any] | None = None,
        soft_update_tau: float = 5e-3,
        max_grad_norm: float | None = None,
        logger: logging.Logger | None = None,
        batch_states: Callable[..., Any] = default_batch_states,
        burnin_action_func: Callable[[], Any] | None = None,
        act_deterministically: bool = True,
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
        advantage_type: str = "mean",
        weight_type: str = "exp",
        beta: float = 1.0,
        n_action_samples: int = 4,
        max_weight: float = 20.0,
    ) -> None:
        check_choice("advantage_type", advantage_type, tuple(EXPECTED))
        check_choice("weight_type", weight_type, ("exp", "binary"))
        self.advantage_type, self.weight_type = advantage_type, weight_type
        self.beta, self.n_action_samples, self.max_weight = beta, n_action_samples, max_weight
        check_positive(self, "beta", "max_weight")
        check_counts(n_action_samples=n_action_samples)
        super().__init__(**arguments_for(AdvantageWeightedActorCritic, locals()))

    def _weight(self, batch: Batch) -> Tensor:
        """`exponential_weight` or `binary_weight` of the advantage, [N]."""
        pool = EXPECTED[self.advantage_type]
        advantage = sampled_advantage(self.policy, self.critics, batch, self.n_action_samples, pool)
        if self.weight_type == "binary":
            return binary_weight(advantage)
        return exponential_weight(advantage, self.beta, self.max_weight)
