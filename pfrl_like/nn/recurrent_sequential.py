"""Sequential networks with recurrent layers."""

from collections.abc import Callable
from typing import Any

from torch import nn

from pfrl_like.utils import recurrent
from pfrl_like.utils.contexts import ignores_training

Call = Callable[[Any, Any, Any], tuple[Any, Any]]


@ignores_training
class RecurrentSequential(recurrent.Recurrent, nn.Sequential):
    """`torch.nn.Sequential` that may contain recurrent layers.

    A layer that is not recurrent is called once, with the rows of all steps as one batch.

    Args:
        *args: Layers, as for `torch.nn.Sequential`.
    """

    def forward(self, sequences: Any, recurrent_state: Any) -> tuple[Any, tuple[Any, ...]]:  # type: ignore[override]
        """Return the last layer's output, a packed sequence, and a tuple of the states of the recurrent layers.

        Raises:
            ValueError: If the input is not packed, or if the number of states is not the number of recurrent layers.
        """
        return self._apply_layers(sequences, recurrent_state, lambda layer, *given: layer(*given))

    def outputs(self, sequences: Any, recurrent_state: Any) -> Any:
        """Return the last layer's output, a packed sequence, without the states."""
        return self._apply_layers(sequences, recurrent_state, lambda *given: (recurrent.layer_outputs(*given), None))[0]

    def _apply_layers(self, sequences: Any, recurrent_state: Any, call: Call) -> tuple[Any, tuple[Any, ...]]:
        info = recurrent.get_packed_sequence_info(sequences)
        if info is None:
            raise ValueError(f"sequences is {type(sequences).__name__}, expected a PackedSequence")
        n_states = len(self.recurrent_children)
        states = [None] * n_states if recurrent_state is None else list(recurrent_state)
        if len(states) != n_states:
            raise ValueError(f"recurrent_state has {len(states)} parts, expected {n_states}, one per recurrent layer")
        new_states: list[Any] = []
        rows = recurrent.unwrap_packed_sequences_recursive(sequences)
        for layer in self:
            if recurrent.is_recurrent(layer):
                packed = recurrent.wrap_packed_sequences_recursive(rows, *info)
                output, state = call(layer, packed, states[len(new_states)])
                rows = recurrent.unwrap_packed_sequences_recursive(output)
                new_states.append(state)
            else:
                rows = layer(rows)
        return recurrent.wrap_packed_sequences_recursive(rows, *info), tuple(new_states)

    @property
    def recurrent_children(self) -> tuple[nn.Module, ...]:
        """The recurrent layers."""
        return tuple(layer for layer in self if recurrent.is_recurrent(layer))
