"""Persistent Advantage Learning (Bellemare et al. 2016, arXiv:1512.04860)."""

from typing import Any

import torch
from torch import Tensor

from pfrl_like.agents.al import checked_alpha
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import persistent_advantage_learning_target


class PAL(DQN):
    """`AL` that subtracts less for an action that is also good in the next state, which favours repeating actions.

    Args:
        args: As `DQN`.
        alpha: Weight of the advantage, in [0, 1); 0 is DQN.
        kwargs: As `DQN`.

    Raises:
        ValueError: If `alpha` is not in [0, 1), or on values outside those that `DQN` names, with the value got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    def __init__(self, *args: Any, alpha: float = 0.9, **kwargs: Any) -> None:
        self.alpha = checked_alpha(alpha)
        super().__init__(*args, **kwargs)

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`persistent_advantage_learning_target` of the target network's values."""
        gap = -value.compute_advantage(batch.action)
        next_gap = -next_value.compute_advantage(batch.action)
        if getattr(next_value, "action_mask", None) is not None:  # an action that is forbidden there cannot be repeated
            forbidden = next_value.without_forbidden(torch.zeros_like(next_value.q_values)).isneginf()
            next_gap = next_gap.masked_fill(forbidden.gather(1, batch.action.long().unsqueeze(1)).squeeze(1), torch.inf)
        return persistent_advantage_learning_target(batch.reward, batch.discount, bootstrap, gap, next_gap, self.alpha)
