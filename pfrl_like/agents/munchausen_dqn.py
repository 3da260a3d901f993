"""Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430)."""

import math
from typing import Any

import torch
from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import td_target
from pfrl_like.learning.compatibility.parts import check_numbers_in, check_positive


def munchausen_target(
    value: Any, next_value: Any, batch: Batch, alpha: float, entropy_temperature: float, log_policy_min: float
) -> Tensor:
    """R + alpha * clip(tau * log pi(a|s), l_0, 0) + discount * tau * logsumexp(Q'(s', .) / tau), [N] (eq. 2).

    pi is softmax(Q' / tau) over the allowed actions, and logsumexp gives its soft value. With n-step returns only the
    first step's bonus counts.

    Args:
        value: Q'(s, .) of the target network.
        next_value: Q'(s', .).
        batch: Transitions or sequences.
        alpha: Weight of the bonus.
        entropy_temperature: tau.
        log_policy_min: l_0.
    """
    tau = entropy_temperature
    logits, next_logits = (each.without_forbidden(each.q_values / tau) for each in (value, next_value))
    log_policy = logits.log_softmax(1).gather(1, batch.action.long().unsqueeze(1)).squeeze(1)
    bonus = alpha * torch.clamp(tau * log_policy, log_policy_min, 0.0)
    return td_target(batch.reward + bonus, batch.discount, tau * next_logits.logsumexp(1))


class MunchausenDQN(DQN):
    """DQN that adds the scaled log-probability of its softmax policy to the reward and bootstraps from soft values.

    It explores with its explorer and acts greedily in evaluation, as DQN does.

    Args:
        args: As `DQN`; the Q-function gives a `DiscreteActionValue`.
        alpha: Weight of the scaled log-policy in the reward, from 0 (soft DQN) to 1.
        entropy_temperature: tau, positive; larger values make the policy softer.
        log_policy_min: l_0, negative: lower bound of the scaled log-policy.
        kwargs: As `DQN`.

    Raises:
        ValueError: On values outside those named here and in `DQN`, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    value_type = DiscreteActionValue

    def __init__(
        self,
        *args: Any,
        alpha: float = 0.9,
        entropy_temperature: float = 0.03,
        log_policy_min: float = -1.0,
        **kwargs: Any,
    ) -> None:
        self.alpha, self.entropy_temperature, self.log_policy_min = alpha, entropy_temperature, log_policy_min
        check_numbers_in(self, alpha=(0, 1), log_policy_min=(-math.inf, 0))
        check_positive(self, "entropy_temperature")
        super().__init__(*args, **kwargs)

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`munchausen_target` of the target network's values; chooses no next action."""
        return munchausen_target(value, next_value, batch, self.alpha, self.entropy_temperature, self.log_policy_min)
