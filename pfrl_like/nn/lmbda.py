"""A function as a module."""

from collections.abc import Callable
from typing import Any

from torch import nn

from pfrl_like.utils.contexts import ignores_training


@ignores_training
class Lambda(nn.Module):
    """Wraps a function as a module, for containers that accept only modules.

    Args:
        lambd: The function. A function defined with `lambda` cannot be pickled, but the network's parameters can be
            saved.
    """

    def __init__(self, lambd: Callable[..., Any]) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, x: Any) -> Any:
        """Return the function's result."""
        return self.lambd(x)
