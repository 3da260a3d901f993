"""Parallel branches of a network."""

from typing import Any

from torch import nn

from pfrl_like.nn.fast_forward import fast_forward
from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.recurrent import Recurrent


@ignores_training
class Branched(nn.Module):
    """Calls each of its modules with the same arguments.

    Args:
        *modules: The branches.

    Raises:
        TypeError: If a module is a `Recurrent`.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        for i, module in enumerate(modules):
            if isinstance(module, Recurrent):
                raise TypeError(f"branch {i} is {type(module).__name__}, which is recurrent: use RecurrentBranched")
        self.child_modules = nn.ModuleList(modules)

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs of all branches as a tuple."""
        if len(args) == 1 and not kwargs:
            return tuple(fast_forward(module, args[0]) for module in self.child_modules)
        return tuple(module(*args, **kwargs) for module in self.child_modules)
