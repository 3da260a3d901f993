"""CrossQ (Bhatt et al. 2019, arXiv:1902.05605)."""

import contextlib
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import least_of
from pfrl_like.agents.critics import critic_loss, value_of
from pfrl_like.agents.soft_actor_critic import SoftActorCritic, sample_with_log_prob, soft_reward
from pfrl_like.batch import Batch, map_nested
from pfrl_like.optimizers.compiled_step import Step
from pfrl_like.utils.contexts import evaluating_readers


class CrossQ(SoftActorCritic):
    """Soft Actor-Critic without target networks, for critics with batch normalisation.

    A critic sees present and next states and actions as one batch, so that it normalises both alike; while the policy
    learns, critics are in evaluation mode.

    Args:
        args: As `SoftActorCritic`, for instance with critics of `FCBNSAQFunction`; `soft_update_tau` is without effect.
            In the paper, Adam has beta1 = 0.5, and hidden layers of the critics have 2048 units.
        policy_update_delay: Updates of the critics for each one of policy and temperature.
        kwargs: As `SoftActorCritic`, but for `recurrent`.

    Raises:
        ValueError: If it shall be recurrent, and as `SoftActorCritic`.
        TypeError: As `SoftActorCritic`.
    """

    has_target_critics = False

    def __init__(self, *args: Any, policy_update_delay: int = 3, **kwargs: Any) -> None:
        if kwargs.get("recurrent"):
            raise ValueError("recurrent is True, but CrossQ joins states that are no sequence: use SoftActorCritic")
        super().__init__(*args, policy_update_delay=policy_update_delay, **kwargs)

    def critic_losses(self, batch: Batch) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Losses of the critics in the present states against their own values in the next ones."""
        with torch.no_grad(), evaluating_readers(self.policy):
            _, next_action, log_prob = sample_with_log_prob(self.policy, batch, next=True)
            reward = soft_reward(batch, log_prob, self._temperature())
        n, action = len(batch), torch.cat([batch.action, next_action])
        both = batch.replace(obs=_joined(batch.obs, batch.next_obs))
        values = [value_of(critic, both, action) for critic in self.critics]
        next_value = least_of([value[n:] for value in values])
        return [critic_loss(value[:n], batch, next_value, reward, **self.loss_options) for value in values]

    def improve_policy(self, batch: Batch, step: Step) -> dict[str, Tensor]:
        """As of `SoftActorCritic`, with the critics in evaluation mode."""
        with contextlib.ExitStack() as stack:
            for critic in self.critics:
                stack.enter_context(evaluating_readers(critic))
            return super().improve_policy(batch, step)


def _joined(first: Any, second: Any) -> Any:
    """Rows of one nest of tensors and then those of another."""
    others = iter(_leaves(second))
    return map_nested(lambda leaf: torch.cat([leaf, next(others)]), first)


def _leaves(nested: Any) -> list[Tensor]:
    leaves: list[Tensor] = []
    map_nested(leaves.append, nested)
    return leaves
