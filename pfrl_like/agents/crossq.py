"""CrossQ (Bhatt et al. 2019, arXiv:1902.05605)."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from pfrl_like.action_value import min_of
from pfrl_like.agents.soft_actor_critic import SoftActorCritic, sample_with_log_prob, soft_reward
from pfrl_like.batch import Batch, concatenate_nested
from pfrl_like.learning.compatibility.arguments import arguments_for
from pfrl_like.learning.critics import NO_TARGETS, critic_loss, next_obs_of, value_of
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.utils.batch_states import batch_states as default_batch_states
from pfrl_like.utils.contexts import evaluation_mode, evaluation_mode_of_all
from pfrl_like.utils.recurrent import is_recurrent


class CrossQ(SoftActorCritic):
    """Soft Actor-Critic without target networks, for critics with batch normalisation.

    A critic evaluates the current and the next state-action pairs in one batch. Therefore batch normalisation uses the
    same statistics for both. The critics are in evaluation mode while the policy is updated. The paper uses Adam with
    beta1 = 0.5 and critics with hidden layers of 2048 units, for example `FCBNSAQFunction`.

    Args:
        policy: Module from observations to distributions of actions, for example one that ends in a
            `SquashedGaussianHead`.
        q_func1: First critic, called as `q_func1((obs, action))`; it returns a tensor [N, 1] or an `ActionValue` with
            one action.
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
        soft_update_tau: Must be None: CrossQ has no target networks.
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
        further_q_funcs: Additional critics. The target uses the minimum over all critics.
        further_q_func_optimizers: Optimisers of the additional critics.
        n_times_update: Number of updates every `update_interval` steps.
        policy_update_delay: Number of critic updates per update of the policy and the temperature.
        batch_accumulator: "mean" or "sum": reduction of the losses over the minibatch.
        recurrent: True to train a recurrent policy on sequences; critics must not be recurrent.
        episodic_update_len: Maximum length of the sequences in recurrent updates, in steps; None uses whole episodes.
        device: Device as a string or `torch.device`, instead of `gpu`.
        num_steps: Number of steps n of the n-step returns in recurrent updates. If n > 1, an `ActionValue` that a
            network returns must support indexing by rows, `value[rows]`. For updates that are not recurrent, set
            `num_steps` of the replay buffer instead.
        compile: True to compile the update. Requires Adam, AdamW, RMSprop or SGD, and `recurrent=False`. The update is
            compiled when it runs for the second time. The compilation takes about 30 s and is logged (level INFO).

    Raises:
        ValueError: If an argument is outside the range documented above. The message contains the value.
        TypeError: If a critic is recurrent, if `soft_update_tau` is given, if an argument has the wrong type or does
            not match another argument, or if a keyword is unknown.
    """

    _targets = NO_TARGETS
    joins_next_states = True

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
        soft_update_tau: None = None,
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
        policy_update_delay: int = 3,
        batch_accumulator: str = "mean",
        recurrent: bool = False,
        episodic_update_len: int | None = None,
        device: torch.device | str | None = None,
        num_steps: int = 1,
        compile: bool = False,
    ) -> None:
        if soft_update_tau is not None:
            raise TypeError("soft_update_tau is given, but CrossQ has no target networks: leave the argument out")
        del soft_update_tau  # the base class then uses its default, which has no effect without target networks
        super().__init__(**arguments_for(SoftActorCritic, locals()))
        for name, critic in zip(self._critic_names, self.critics, strict=True):
            if is_recurrent(critic):
                raise TypeError(
                    f"{name} is {type(critic).__name__}, which is recurrent, but CrossQ joins current and next "
                    "states, which are not a sequence: only the policy may be recurrent"
                )

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Return one result of `critic_loss` per critic. The targets use the critics, not target networks."""
        with torch.no_grad(), evaluation_mode(self.policy):
            _, next_action, log_prob = sample_with_log_prob(self.policy, batch, next=True)
            reward = soft_reward(batch, log_prob, self._multipliers["temperature"]())
        n, action = len(batch), torch.cat([batch.action, next_action])
        joined = batch.replace(obs=concatenate_nested([batch.obs, next_obs_of(batch)]))
        values = [value_of(critic, joined, action) for critic in self.critics]
        next_value = min_of([value[n:] for value in values])
        pairs = zip(values, self._rows_of_critics(batch), strict=True)
        return [critic_loss(value[:n], rows, next_value, reward, **self._loss_options) for value, rows in pairs]

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise the losses of policy and temperature, with the critics in evaluation mode, and return statistics."""
        with evaluation_mode_of_all(*self.critics):
            return super().policy_step(batch, step)
