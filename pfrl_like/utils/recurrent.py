"""Recurrent networks: their interface, their states, and rows packed time first.

A recurrent state is a tensor [layers, B, ...], a tuple of states, or None for the initial state. "Packed" rows are
those of B sequences in the order of `torch.nn.utils.rnn.PackedSequence`: sorted by falling length, time first.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from pfrl_like.batch import first_leaf


class Recurrent:
    """Interface of a recurrent module, like that of `torch.nn.LSTM` fed with a `PackedSequence`.

    A model is made recurrent by composing it with `pfrl_like.nn.RecurrentSequential` and `RecurrentBranched`, or by a
    class that inherits from this one and from `torch.nn.Module`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "forward" in vars(cls) and "outputs" not in vars(cls):  # an inherited `outputs` would ignore this `forward`
            cls.outputs = Recurrent.outputs  # type: ignore[method-assign]

    def forward(self, packed_input: Any, recurrent_state: Any) -> tuple[Any, Any]:
        """Compute all steps of a batch of sequences.

        Args:
            packed_input: A `PackedSequence`, or nested tuples of such.
            recurrent_state: State before the first step; None is the initial state.

        Returns:
            Output with its tensors packed like the input, and the state after the last step.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define forward(packed_input, recurrent_state)")

    def outputs(self, packed_input: Any, recurrent_state: Any) -> Any:
        """Output without the state; a module may have a faster way to compute it.

        Args:
            packed_input: A `PackedSequence`, or nested tuples of such.
            recurrent_state: State before the first step; None is the initial state.

        Returns:
            Output with its tensors packed like the input.
        """
        return self(packed_input, recurrent_state)[0]  # type: ignore[operator]


def is_recurrent(layer: Any) -> bool:
    """True if a layer takes and returns a recurrent state: `nn.RNN`, `nn.GRU`, `nn.LSTM` or a `Recurrent`."""
    return isinstance(layer, _RECURRENT)


_RECURRENT = (nn.RNN, nn.GRU, nn.LSTM, Recurrent)


# Forward passes


def forward(
    module: Callable[..., Any], inputs: Any, recurrent_state: Any = None, lengths: Tensor | None = None
) -> tuple[Any, Any]:
    """Apply a module, recurrent or not, to rows; agents call their networks only in this way.

    Args:
        module: Any callable; one that is not recurrent treats every row separately and has no state.
        inputs: A tensor [N, ...], or nested tuples and dicts of such.
        recurrent_state: State before the first step; None is the initial state.
        lengths: Lengths of the sequences whose packed rows `inputs` holds, [B], falling, on the host. None: every row
            is one step of a separate sequence.

    Returns:
        The output over all N rows, and the state after the last step (None if the module is not recurrent).

    Raises:
        ValueError: If `lengths` is not positive and falling.
    """
    if not is_recurrent(module):
        return module(inputs), None
    if lengths is None:
        return one_step_forward(module, inputs, recurrent_state)
    packed = wrap_packed_sequences_recursive(inputs, batch_sizes_of(lengths), None)
    output, recurrent_state = module(packed, recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


#: Largest ratio of padded rows to packed rows.
_MOST_PADDING = 4


def sequence_outputs(module: Callable[..., Any], inputs: Any, recurrent_state: Any, lengths: Tensor) -> Any:
    """Output of `forward` over the packed rows of sequences, without the state; on a CPU several times faster.

    Args:
        module: Any callable; one that is not recurrent treats every row separately.
        inputs: Packed rows, a tensor [N, ...] or nested tuples and dicts of such.
        recurrent_state: State before the first step; None is the initial state.
        lengths: Lengths of the sequences, [B], falling, on the host.

    Returns:
        The output over all N rows.

    Raises:
        ValueError: If `lengths` is not positive and falling.
    """
    if not is_recurrent(module):
        return module(inputs)
    packed = wrap_packed_sequences_recursive(inputs, batch_sizes_of(lengths), None)
    return unwrap_packed_sequences_recursive(layer_outputs(module, packed, recurrent_state))


def layer_outputs(layer: Any, packed_input: Any, recurrent_state: Any) -> Any:
    """Output of a recurrent module or layer, packed, without its state.

    On a CPU, PyTorch's own layers get padded sequences, unless most rows would be padding: packed sequences of
    different lengths take up to six times as long. Packing is needed only for the state after the last step.

    Args:
        layer: `nn.RNN`, `nn.GRU`, `nn.LSTM` or a `Recurrent`.
        packed_input: A `PackedSequence`, for a `Recurrent` also nested tuples of such.
        recurrent_state: State before the first step; None is the initial state.

    Returns:
        Output with its tensors packed like the input.
    """
    if layer._forward_hooks or layer._forward_pre_hooks:
        return layer(packed_input, recurrent_state)[0]
    if isinstance(layer, Recurrent):
        return layer.outputs(packed_input, recurrent_state)
    rows, batch_sizes, sorted_indices, _ = packed_input
    length, count = len(batch_sizes), int(batch_sizes[0])
    if (
        rows.device.type != "cpu"
        or layer.bidirectional
        or sorted_indices is not None
        or length * count > _MOST_PADDING * len(rows)
    ):
        return layer(packed_input, recurrent_state)[0]
    at = (torch.arange(count) < batch_sizes.unsqueeze(1)).flatten().nonzero().squeeze(1)
    padded = rows.new_zeros(length * count, rows.shape[1]).index_copy(0, at, rows).view(length, count, -1)
    axis = int(layer.batch_first)
    output = layer(padded.transpose(0, axis), recurrent_state)[0].transpose(0, axis)
    return packed_input._replace(data=output.reshape(length * count, -1).index_select(0, at))


def one_step_forward(rnn: Callable[..., Any], batch_input: Any, recurrent_state: Any) -> tuple[Any, Any]:
    """Compute one step of each of B sequences.

    Args:
        rnn: Recurrent module.
        batch_input: A tensor [B, ...], or nested tuples and dicts of such.
        recurrent_state: State of the B sequences; None is the initial state.

    Returns:
        The output for the B rows, and the new state.
    """
    output, recurrent_state = rnn(pack_one_step_batch_as_sequences(batch_input), recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


def pack_and_forward(rnn: Callable[..., Any], sequences: Any, recurrent_state: Any) -> tuple[Any, Any]:
    """Compute all steps of B sequences given one by one.

    Args:
        rnn: Recurrent module.
        sequences: List of B tensors [length, ...] of falling length, or of nested tuples of such.
        recurrent_state: State before the first step; None is the initial state.

    Returns:
        The output over the packed rows, and the new state.
    """
    output, recurrent_state = rnn(pack_sequences_recursive(sequences), recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


# Packing


def batch_sizes_of(lengths: Tensor) -> Tensor:
    """Number of sequences that are still running at each time step, [max(lengths)], as `PackedSequence.batch_sizes`.

    Args:
        lengths: Lengths, [B], int64, falling.

    Raises:
        ValueError: If the lengths are not positive and falling.
    """
    if len(lengths) == 0 or int(lengths[-1]) < 1 or bool((lengths[1:] > lengths[:-1]).any()):
        raise ValueError(f"lengths must be positive and falling, got {lengths.tolist()}")
    return (lengths > torch.arange(int(lengths[0])).unsqueeze(1)).sum(1)


def pack_sequences_recursive(sequences: Any) -> Any:
    """Pack a list of sequences; the parts of sequences that are tuples or dicts are packed separately.

    Raises:
        ValueError: If the list is empty or the lengths are not falling.
    """
    if len(sequences) == 0:
        raise ValueError("sequences is empty, expected at least one")
    first = sequences[0]
    if isinstance(first, Tensor):
        try:
            return pack_sequence(sequences)
        except RuntimeError as error:
            raise ValueError(f"sequences have lengths {[len(s) for s in sequences]}, expected falling ones") from error
    if isinstance(first, tuple):
        return tuple(pack_sequences_recursive([sequence[i] for sequence in sequences]) for i in range(len(first)))
    if isinstance(first, dict):
        return {key: pack_sequences_recursive([sequence[key] for sequence in sequences]) for key in first}
    return sequences


def pack_one_step_batch_as_sequences(xs: Any) -> Any:
    """Convert a tensor [B, ...], or nested tuples and dicts of such, to B sequences of one step each."""
    return wrap_packed_sequences_recursive(xs, torch.tensor([len(first_leaf(xs))]), None)


def wrap_packed_sequences_recursive(unwrapped: Any, batch_sizes: Tensor, sorted_indices: Tensor | None) -> Any:
    """Convert every tensor of packed rows to a `PackedSequence`; other objects are returned as they are.

    Args:
        unwrapped: A tensor [N, ...], or nested tuples and dicts.
        batch_sizes: `PackedSequence.batch_sizes`.
        sorted_indices: `PackedSequence.sorted_indices`; None if the sequences are already sorted.
    """
    if isinstance(unwrapped, Tensor):
        return PackedSequence(unwrapped, batch_sizes=batch_sizes, sorted_indices=sorted_indices)
    if isinstance(unwrapped, tuple):
        return tuple(wrap_packed_sequences_recursive(part, batch_sizes, sorted_indices) for part in unwrapped)
    if isinstance(unwrapped, dict):
        return {k: wrap_packed_sequences_recursive(v, batch_sizes, sorted_indices) for k, v in unwrapped.items()}
    return unwrapped


def unwrap_packed_sequences_recursive(packed: Any) -> Any:
    """Packed rows of every `PackedSequence`; other objects, such as an `ActionValue`, are returned as they are."""
    if isinstance(packed, PackedSequence):
        return packed.data
    if isinstance(packed, tuple):
        return tuple(unwrap_packed_sequences_recursive(part) for part in packed)
    if isinstance(packed, dict):
        return {key: unwrap_packed_sequences_recursive(part) for key, part in packed.items()}
    return packed


#: PFRL's name for it where the sequences have one step each.
unpack_sequences_as_one_step_batch = unwrap_packed_sequences_recursive


def get_packed_sequence_info(packed: Any) -> tuple[Tensor, Tensor | None] | None:
    """`batch_sizes` and `sorted_indices` of the first `PackedSequence` found; None if there is none."""
    if isinstance(packed, PackedSequence):
        return packed.batch_sizes, packed.sorted_indices
    parts: Iterable[Any] = packed.values() if isinstance(packed, dict) else packed if isinstance(packed, tuple) else ()
    return next((info for info in map(get_packed_sequence_info, parts) if info is not None), None)


def flatten_sequences_time_first(sequences: Sequence[Sequence[Any]]) -> list[Any]:
    """Items of sequences of falling length, in packed order."""
    absent = object()
    steps = itertools.zip_longest(*sequences, fillvalue=absent)
    return [item for step in steps for item in step if item is not absent]


def max_over_sequences(values: Tensor, lengths: Tensor) -> Tensor:
    """Largest absolute value of each sequence, which is the priority of the sequence.

    Args:
        values: A number for each packed row, [N].
        lengths: Lengths of the sequences, [B], falling, on the host.

    Returns:
        [B], not negative.
    """
    sequence = sequence_of_rows(lengths).to(values.device, non_blocking=values.is_cuda)
    return values.new_zeros(len(lengths)).scatter_reduce(0, sequence, values.abs(), "amax")


def sequence_of_rows(lengths: Tensor) -> Tensor:
    """Number of the sequence of each packed row, [N], on the host.

    Args:
        lengths: Lengths of the sequences, [B], falling, on the host.
    """
    return torch.cat([torch.arange(size) for size in batch_sizes_of(lengths).tolist()])


# States


def map_recurrent_state(function: Callable[[Any], Any], recurrent_state: Any) -> Any:
    """Apply a function to every tensor (or array) of a state; None stays None.

    Raises:
        ValueError: If the state holds anything but tensors, arrays, tuples and None.
    """
    if recurrent_state is None:
        return None
    if isinstance(recurrent_state, tuple):
        return tuple(map_recurrent_state(function, part) for part in recurrent_state)
    if isinstance(recurrent_state, Tensor | np.ndarray):
        return function(recurrent_state)
    raise ValueError(f"a recurrent state is a tensor, a tuple of states or None, got {recurrent_state!r}")


def mask_recurrent_state_at(recurrent_state: Any, indices: Any) -> Any:
    """Copy of a state in which some sequences are reset to zero.

    Args:
        recurrent_state: State of B sequences.
        indices: Index or indices of the sequences to reset.
    """

    def masked(state: Tensor) -> Tensor:
        state = state.clone()
        state[:, indices] = 0
        return state

    return map_recurrent_state(masked, recurrent_state)


def get_recurrent_state_at(recurrent_state: Any, indices: Any, detach: bool) -> Any:
    """State of one sequence (`indices` an integer; its tensors are [layers, ...]) or of several.

    Args:
        recurrent_state: State of B sequences.
        indices: An index, or several.
        detach: Whether to detach the result from the graph.
    """
    return map_recurrent_state(lambda state: (state.detach() if detach else state)[:, indices], recurrent_state)


def concatenate_recurrent_states(split_recurrent_states: Sequence[Any]) -> Any:
    """Join states of single sequences, as returned by `get_recurrent_state_at`, into one state.

    Args:
        split_recurrent_states: B states with tensors or arrays [layers, ...]; None counts as zeros.

    Returns:
        A state with tensors or arrays [layers, B, ...]; None if all are None.
    """
    present = next((state for state in split_recurrent_states if state is not None), None)
    if present is None:
        return None
    if isinstance(present, tuple):
        absent = (None,) * len(present)
        parts = zip(*(absent if state is None else state for state in split_recurrent_states), strict=True)
        return tuple(concatenate_recurrent_states(part) for part in parts)

    def stacked(example: Any) -> Any:
        numpy = isinstance(example, np.ndarray)
        zeros = np.zeros_like(example) if numpy else torch.zeros_like(example)
        states = [zeros if state is None else state for state in split_recurrent_states]
        return np.stack(states, axis=1) if numpy else torch.stack(states, dim=1)

    return map_recurrent_state(stacked, present)


def recurrent_state_as_numpy(recurrent_state: Any) -> Any:
    """The same state with arrays instead of tensors."""
    return map_recurrent_state(lambda state: state.detach().cpu().numpy(), recurrent_state)


def recurrent_state_from_numpy(recurrent_state: Any, device: torch.device | str) -> Any:
    """The same state with tensors on `device` instead of arrays."""
    return map_recurrent_state(lambda state: torch.from_numpy(state).to(device), recurrent_state)


def detach_recurrent_state(recurrent_state: Any) -> Any:
    """The same state, detached from the graph."""
    return map_recurrent_state(lambda state: state.detach(), recurrent_state)
