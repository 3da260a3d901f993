"""Parallel recurrent branches."""

from typing import Any

from torch import nn

from pfrl_like.utils.contexts import ignores_training
from pfrl_like.utils.recurrent import Recurrent, is_recurrent, layer_outputs


@ignores_training
class RecurrentBranched(Recurrent, nn.ModuleList):
    """Calls each of its recurrent modules with the same sequences.

    Args:
        *modules: The branches, which must all be recurrent.

    Raises:
        TypeError: If a module is not recurrent.
    """

    def __init__(self, *modules: nn.Module) -> None:
        for i, module in enumerate(modules):
            if not is_recurrent(module):
                hint = "wrap it in a RecurrentSequential, or use Branched if no branch is recurrent"
                raise TypeError(f"branch {i} is {type(module).__name__}, which is not recurrent: {hint}")
        super().__init__(modules)

    def forward(self, sequences: Any, recurrent_state: Any) -> tuple[Any, Any]:
        """Return a tuple of the outputs and a tuple of the states of all branches."""
        states = [None] * len(self) if recurrent_state is None else recurrent_state
        results = [branch(sequences, state) for branch, state in zip(self, states, strict=True)]
        return tuple(output for output, _ in results), tuple(state for _, state in results)

    def outputs(self, sequences: Any, recurrent_state: Any) -> Any:
        """Return the outputs of all branches without the states."""
        states = [None] * len(self) if recurrent_state is None else recurrent_state
        return tuple(layer_outputs(*each) for each in zip(self, [sequences] * len(self), states, strict=True))
