"""The interfaces of Q-functions."""

from abc import ABC, abstractmethod
from typing import Any


class StateQFunction(ABC):
    """A Q-function of the state, which says the value of every action at once."""

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """Evaluate the Q-function.

        Args:
            x: Observations, [B, ...].

        Returns:
            An `ActionValue` of the B states.
        """


class StateActionQFunction(ABC):
    """A Q-function of state and action."""

    @abstractmethod
    def __call__(self, x: Any, a: Any) -> Any:
        """Evaluate the Q-function.

        Args:
            x: Observations, [B, ...].
            a: Actions, [B, ...].

        Returns:
            Q(x, a), [B, 1].
        """
