"""Advantage Learning (Bellemare et al. 2016, arXiv:1512.04860)."""

import numbers
from typing import Any

from torch import Tensor

from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import advantage_learning_target


class AL(DQN):
    """DQN whose targets subtract a part of the action gap, so that the best action stands out from the others.

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
        """`advantage_learning_target` of the target network's values."""
        gap = -value.compute_advantage(batch.action)
        return advantage_learning_target(batch.reward, batch.discount, bootstrap, gap, self.alpha)


def checked_alpha(alpha: float) -> float:
    """Return `alpha`, the weight of an advantage, if it is in [0, 1).

    Raises:
        ValueError: If it is not.
    """
    if not (isinstance(alpha, numbers.Real) and 0 <= alpha < 1):
        raise ValueError(f"alpha is {alpha!r}, expected a number from 0 to below 1")
    return alpha
