"""Values of continuous actions, computed when they are asked for."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pfrl_like.action_value.base import ActionValue


class SingleActionValue(ActionValue):
    """Value of whatever action is asked for.

    Args:
        evaluator: Function from actions [B, ...] to values [B].
        maximizer: Function without arguments that gives the greedy actions [B, ...]; without it there are none.
    """

    def __init__(self, evaluator: Callable[[Any], Tensor], maximizer: Callable[[], Tensor] | None = None) -> None:
        self.evaluator = evaluator
        self.maximizer = maximizer

    @property
    def params(self) -> tuple[Tensor, ...]:
        """Empty: nothing is computed before an action is evaluated."""
        return ()

    @property
    def greedy_actions(self) -> Tensor:
        """What the maximizer gives.

        Raises:
            ValueError: If there is no maximizer.
        """
        if self.maximizer is None:
            raise ValueError("maximizer is None, so that this SingleActionValue has no greedy actions")
        return self.maximizer()

    @property
    def max(self) -> Tensor:
        """Value of the greedy actions, [B]."""
        return self.evaluator(self.greedy_actions)

    def evaluate_actions(self, actions: Tensor) -> Tensor:
        """Value of one action for each state, [B]."""
        return self.evaluator(actions)

    def __repr__(self) -> str:
        return "SingleActionValue"
