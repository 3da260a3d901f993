"""Dynamic Policy Programming (Azar et al. 2012, arXiv:1004.2027)."""

import math
from typing import Any

from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions.td import dynamic_policy_programming_target


class DPP(DQN):
    """DQN that learns action preferences: those of actions that are not the best sink ever further.

    The mean of the preferences under softmax(eta * preferences) is the value of a state; the difference of an action
    from it adds up over the moves of the target network.

    Args:
        args: As `DQN`; the Q-function has to give a `DiscreteActionValue`.
        eta: Inverse temperature of the softmax, positive.
        kwargs: As `DQN`.

    Raises:
        ValueError: If `eta` is not positive or infinite, and as `DQN`.
        TypeError: As `DQN`.
    """

    value_type = DiscreteActionValue

    def __init__(self, *args: Any, eta: float = 1.0, **kwargs: Any) -> None:
        if not 0 < eta < math.inf:
            raise ValueError(f"eta is {eta!r}, expected a finite number above 0")
        self.eta = eta
        super().__init__(*args, **kwargs)

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`dynamic_policy_programming_target` of the target network's values; chooses no next action."""
        return dynamic_policy_programming_target(
            batch.reward,
            batch.discount,
            next_value.compute_expectation(self.eta),
            value.evaluate_actions(batch.action),
            value.compute_expectation(self.eta),
        )
