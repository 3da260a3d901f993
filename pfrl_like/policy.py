"""The interface of policies."""

from abc import ABC, abstractmethod
from typing import Any


class Policy(ABC):
    """A policy: what to do in a state, as a probability distribution."""

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """Evaluate the policy.

        Args:
            x: Observations, [B, ...].

        Returns:
            A `torch.distributions.Distribution` of the actions in the B states.
        """
