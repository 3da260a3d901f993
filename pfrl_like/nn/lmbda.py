"""A function as a module."""

from collections.abc import Callable
from typing import Any

from torch import nn

from pfrl_like.utils.contexts import ignores_training


@ignores_training
class Lambda(nn.Module):
    """Module that calls a function, for containers that accept only modules.

    Args:
        lambd: The function. If it is defined with `lambda`, the module cannot be pickled, but the network's
            `state_dict` can.
    """

    def __init__(self, lambd: Callable[..., Any]) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Any) -> Any:
        """Return the function's result."""
        return self.lambd(x)
