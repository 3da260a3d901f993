"""CrossQ (Bhatt et al. 2019, arXiv:1902.05605)."""

import inspect
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import least_of
from pfrl_like.agents.soft_actor_critic import SoftActorCritic, sample_with_log_prob, soft_reward
from pfrl_like.batch import Batch, concatenate_nested
from pfrl_like.learning.critics import NO_TARGETS, critic_loss, next_obs_of, value_of
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.contexts import evaluating_readers, evaluating_readers_among
from pfrl_like.utils.recurrent import is_recurrent


class CrossQ(SoftActorCritic):
    """Soft Actor-Critic without target networks, for critics with batch normalisation.

    A critic evaluates present and next states and actions in one batch, so that it normalises both alike. While the
    policy learns, the critics are in evaluation mode.

    Args:
        args: As `SoftActorCritic`, for instance with critics of `FCBNSAQFunction`. In the paper, Adam has beta1 = 0.5,
            and hidden layers of the critics have 2048 units.
        policy_update_delay: Updates of the critics for each one of policy and temperature.
        kwargs: As `SoftActorCritic`, but for `soft_update_tau`; of `recurrent` agents only the policy is recurrent.

    Raises:
        ValueError: On values outside those named here, with the value got.
        TypeError: If a critic is recurrent, if `soft_update_tau` is given, if the parts do not fit together, or on an
            unknown keyword.
    """

    targets = NO_TARGETS
    joins_next_states = True

    def __init__(self, *args: Any, policy_update_delay: int = 3, **kwargs: Any) -> None:
        if "soft_update_tau" in inspect.signature(SoftActorCritic).bind_partial(*args, **kwargs).arguments:
            raise TypeError("CrossQ got soft_update_tau, but it has no target networks that could move: leave it out")
        super().__init__(*args, policy_update_delay=policy_update_delay, **kwargs)
        for name, critic in zip(self.critic_names, self.critics, strict=True):
            if is_recurrent(critic):
                raise TypeError(
                    f"{name} is {type(critic).__name__}, which keeps a recurrent state, but CrossQ joins states "
                    "that are no sequence: only its policy may be recurrent"
                )

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Losses of the critics in the present states; the targets use their own values in the next states."""
        with torch.no_grad(), evaluating_readers(self.policy):
            _, next_action, log_prob = sample_with_log_prob(self.policy, batch, next=True)
            reward = soft_reward(batch, log_prob, self.multipliers["temperature"]())
        n, action = len(batch), torch.cat([batch.action, next_action])
        both = batch.replace(obs=concatenate_nested([batch.obs, next_obs_of(batch)]))
        values = [value_of(critic, both, action) for critic in self.critics]
        next_value = least_of([value[n:] for value in values])
        learning = zip(values, self.rows_of_critics(batch), strict=True)
        return [critic_loss(value[:n], rows, next_value, reward, **self.loss_options) for value, rows in learning]

    def policy_step(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """Minimise the losses of policy and temperature, with the critics in evaluation mode; returns statistics."""
        with evaluating_readers_among(*self.critics):
            return super().policy_step(batch, step)
