"""The interfaces of Q-functions."""

from abc import ABC, abstractmethod
from typing import Any


class StateQFunction(ABC):
    """Interface of a Q-function Q(s, .). It returns the values of all actions."""

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """Evaluate the Q-function.

        Args:
            x: Observations, [B, ...].

        Returns:
            An `ActionValue` of B states.
        """


class StateActionQFunction(ABC):
    """Interface of a Q-function Q(s, a). It returns the values of pairs of observation and action."""

    @abstractmethod
    def __call__(self, x: Any, a: Any) -> Any:
        """Evaluate the Q-function.

        Args:
            x: Observations, [B, ...].
            a: Actions, [B, ...].

        Returns:
            Q(x, a), [B, 1].
        """
