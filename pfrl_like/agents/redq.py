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
    """Soft Actor-Critic with an ensemble of critics and many updates per step.

    The targets use the minimum over `subset_size` critics. Each update samples these critics anew. The policy's loss
    uses the mean over all critics. By default the policy is updated once per step. With two critics that have dropout
    and layer normalisation (`DropoutFCSAQFunction`) the algorithm is DroQ. Target networks are evaluated without
    dropout.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_funcs: List of at least two critics.
        policy_optimizer: Optimiser of the policy.
        q_func_optimizers: Optimisers of the critics, one per critic.
        replay_buffer: Replay buffer that stores the transitions; an episodic replay buffer if `recurrent` is True.
        gamma: Discount factor per step.
        subset_size: Number of critics sampled for the targets of each update; at most the number of critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature; None uses
            `n_times_update`.
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
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics may be recurrent as well. The replay buffer
            stores only the policy's recurrent state. Critics start each sequence from their initial recurrent state.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: Must be False, because each update samples new critics for the targets. A compiled update cannot do
            this.

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If an argument has the wrong type or does not match another argument, or if a keyword is unknown.
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
        check_counts(subset_size=subset_size, n_times_update=n_times_update)
        critics, optimizers = listed("q_funcs", q_funcs), listed("q_func_optimizers", q_func_optimizers)
        if len(critics) < 2 or subset_size > len(critics):
            raise ValueError(
                f"q_funcs has length {len(critics)}, expected at least 2 and at least subset_size, {subset_size}"
            )
        if compile:
            raise ValueError(
                "compile is True, but REDQ samples other critics for the targets of each update: leave compile out"
            )
        critics, optimizers = numbered(critics, optimizers)
        q_func1, q_func2, *further_q_funcs = critics.values()
        q_func1_optimizer, q_func2_optimizer, *further_q_func_optimizers = optimizers.values()
        self.subset_size = subset_size
        policy_update_delay = n_times_update if policy_update_delay is None else policy_update_delay
        super().__init__(**arguments_for(SoftActorCritic, locals()))

    def _bootstrap_critics(self) -> Sequence[Any]:
        """Return `subset_size` target critics, sampled with PyTorch's global generator."""
        critics: list[Any] = self.target_critics
        if self.subset_size == len(critics):
            return critics
        return [critics[i] for i in torch.randperm(len(critics))[: self.subset_size].tolist()]
