"""The interface of policies."""

from abc import ABC, abstractmethod
from typing import Any


class Policy(ABC):
    """Interface of a policy, which maps observations to probability distributions of actions."""

    @abstractmethod
    def __call__(self, state: Any) -> Any:
        """Evaluate the policy.

        Args:
            state: Observations, [B, ...].

        Returns:
            A `torch.distributions.Distribution` of the actions in B states.
        """
