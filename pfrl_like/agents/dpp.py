"""Dynamic Policy Programming (Azar et al. 2012, arXiv:1004.2027)."""

import math
import numbers
from abc import abstractmethod
from typing import Any

from torch import Tensor

from pfrl_like.action_value import DiscreteActionValue
from pfrl_like.agents.dqn import DQN
from pfrl_like.batch import Batch
from pfrl_like.functions.losses import dynamic_policy_programming_target


class AbstractDPP(DQN):
    """DQN that learns action preferences, which keep falling for suboptimal actions.

    The difference between an action's preference and the value of its state adds up over the updates of the target
    network. Subclasses define the value of a state. The arguments are those of `DQN`.
    """

    @abstractmethod
    def _state_value(self, value: Any) -> Tensor:
        """Value of each state, computed from its preferences, [B]."""

    def target(self, value: Any, next_value: Any, bootstrap: Tensor, batch: Batch) -> Tensor:
        """`dynamic_policy_programming_target` of the target network's values; chooses no next action."""
        return dynamic_policy_programming_target(
            batch.reward,
            batch.discount,
            self._state_value(next_value),
            value.evaluate_actions(batch.action),
            self._state_value(value),
        )


class DPP(AbstractDPP):
    """Dynamic Policy Programming whose state value is the mean under softmax(eta * preferences), the paper's M_eta.

    Args:
        args: As `DQN`; the Q-function has to give a `DiscreteActionValue`.
        eta: Inverse temperature of the softmax, positive.
        kwargs: As `DQN`.

    Raises:
        ValueError: If `eta` is not positive or is infinite, or on values outside those that `DQN` names, with the value
            got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    value_type = DiscreteActionValue

    def __init__(self, *args: Any, eta: float = 1.0, **kwargs: Any) -> None:
        self.eta = _checked_eta(eta)
        super().__init__(*args, **kwargs)

    def _state_value(self, value: Any) -> Tensor:
        """Mean under the softmax, [B]."""
        mean: Tensor = value.compute_expectation(self.eta)
        return mean


class DPPL(AbstractDPP):
    """Dynamic Policy Programming whose state value is log(sum(exp(eta * preferences))) / eta, the paper's L_eta.

    Args:
        args: As `DQN`; the Q-function has to give a `DiscreteActionValue`.
        eta: Inverse temperature of the soft maximum, positive.
        kwargs: As `DQN`.

    Raises:
        ValueError: If `eta` is not positive or is infinite, or on values outside those that `DQN` names, with the value
            got.
        TypeError: If the parts do not fit together, or on an unknown keyword.
    """

    value_type = DiscreteActionValue

    def __init__(self, *args: Any, eta: float = 1.0, **kwargs: Any) -> None:
        self.eta = _checked_eta(eta)
        super().__init__(*args, **kwargs)

    def _state_value(self, value: Any) -> Tensor:
        """Soft maximum, [B]."""
        maximum: Tensor = value.without_forbidden(self.eta * value.q_values).logsumexp(1) / self.eta
        return maximum


class DPPGreedy(AbstractDPP):
    """Dynamic Policy Programming whose state value is the largest preference, as in `DPP` with an infinite `eta`.

    The arguments are those of `DQN`.
    """

    def _state_value(self, value: Any) -> Tensor:
        """Largest preference, [B]."""
        largest: Tensor = value.max
        return largest


def _checked_eta(eta: float) -> float:
    if not (isinstance(eta, numbers.Real) and 0 < eta < math.inf):
        raise ValueError(f"eta is {eta!r}, expected a finite number above 0")
    return eta
