"""Recurrent networks: interface, recurrent states, and packed sequences.

A recurrent state is a tensor [layers, B, ...], a tuple of states, or None for the initial state. Packed rows are the
rows of B sequences in the order of `torch.nn.utils.rnn.PackedSequence`. The sequences are sorted by descending length.
The order is: the first row of each sequence, then the second row of each sequence, and so on.
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
    """Interface of recurrent modules: the interface of `torch.nn.LSTM` with a `PackedSequence` as input.

    To make a recurrent model, compose it with `pfrl_like.nn.RecurrentSequential` and `RecurrentBranched`, or define a
    class that inherits from `Recurrent` and `torch.nn.Module`.
    """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "forward" in vars(cls) and "outputs" not in vars(cls):  # an inherited one belongs to a different `forward`
            cls.outputs = Recurrent.outputs  # type: ignore[method-assign]

    def forward(self, packed_input: Any, recurrent_state: Any) -> tuple[Any, Any]:
        """Compute all steps of a batch of sequences.

        Args:
            packed_input: A `PackedSequence`, or nested tuples of `PackedSequence`s.
            recurrent_state: State before the first step. None for the initial state.

        Returns:
            The output, packed like the input, and the state after the last step.
        """
        raise NotImplementedError(f"{type(self).__name__} must define forward(packed_input, recurrent_state)")

    def outputs(self, packed_input: Any, recurrent_state: Any) -> Any:
        """Return the output without the state. A subclass may override this method with a faster computation.

        Args:
            packed_input: A `PackedSequence`, or nested tuples of `PackedSequence`s.
            recurrent_state: State before the first step. None for the initial state.

        Returns:
            The output, packed like the input.
        """
        return self(packed_input, recurrent_state)[0]  # type: ignore[operator]


def is_recurrent(layer: Any) -> bool:
    """True if a layer takes and returns a recurrent state: `nn.RNN`, `nn.GRU`, `nn.LSTM` or a `Recurrent`."""
    return isinstance(layer, nn.RNN | nn.GRU | nn.LSTM | Recurrent)


# Forward passes


def forward(
    module: Callable[..., Any], inputs: Any, recurrent_state: Any = None, lengths: Tensor | None = None
) -> tuple[Any, Any]:
    """Apply a recurrent or non-recurrent module to rows.

    Args:
        module: Any callable. If it is not recurrent, it is called with all rows, without a state.
        inputs: A tensor [N, ...], or nested tuples and dicts of tensors.
        recurrent_state: State before the first step. None for the initial state.
        lengths: Lengths of the packed sequences in `inputs`, [B], descending, on the CPU. If None, every row is one
            step of a separate sequence.

    Returns:
        The output for all N rows, and the state after the last step. The state is None if the module is not recurrent.

    Raises:
        ValueError: If `lengths` is not positive and descending.
    """
    if not is_recurrent(module):
        return module(inputs), None
    if lengths is None:
        return one_step_forward(module, inputs, recurrent_state)
    packed = wrap_packed_sequences_recursive(inputs, batch_sizes_of(lengths), None)
    output, recurrent_state = module(packed, recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


#: Sequences are padded only if the number of padded rows is at most this multiple of the number of packed rows.
_MAX_PADDING = 4


def sequence_outputs(module: Callable[..., Any], inputs: Any, recurrent_state: Any, lengths: Tensor) -> Any:
    """Return the output of `forward` for packed sequences, without the state, which is several times faster on a CPU.

    Args:
        module: Any callable. If it is not recurrent, it is called with all rows.
        inputs: Packed rows: a tensor [N, ...], or nested tuples and dicts of tensors.
        recurrent_state: State before the first step. None for the initial state.
        lengths: Lengths of the sequences, [B], descending, on the CPU.

    Returns:
        The output for all N rows.

    Raises:
        ValueError: If `lengths` is not positive and descending.
    """
    if not is_recurrent(module):
        return module(inputs)
    packed = wrap_packed_sequences_recursive(inputs, batch_sizes_of(lengths), None)
    return unwrap_packed_sequences_recursive(layer_outputs(module, packed, recurrent_state))


def layer_outputs(layer: Any, packed_input: Any, recurrent_state: Any) -> Any:
    """Return the packed output of a recurrent module or layer, without the state.

    On a CPU, the function passes padded sequences to PyTorch's layers, unless most rows would be padding. This is up to
    six times as fast as packed sequences, which are necessary only to compute the state after the last step.

    Args:
        layer: `nn.RNN`, `nn.GRU`, `nn.LSTM` or a `Recurrent`.
        packed_input: A `PackedSequence`. A `Recurrent` also accepts nested tuples of `PackedSequence`s.
        recurrent_state: State before the first step. None for the initial state.

    Returns:
        The output, packed like the input.
    """
    if layer._forward_hooks or layer._forward_pre_hooks:
        return layer(packed_input, recurrent_state)[0]
    if isinstance(layer, Recurrent):
        return layer.outputs(packed_input, recurrent_state)
    rows, batch_sizes, sorted_indices, _ = packed_input
    length, count = len(batch_sizes), int(batch_sizes[0])
    is_long = length * count > _MAX_PADDING * len(rows)
    if is_long or rows.device.type != "cpu" or layer.bidirectional or sorted_indices is not None:
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
        batch_input: A tensor [B, ...], or nested tuples and dicts of tensors.
        recurrent_state: State of the B sequences. None for the initial state.

    Returns:
        The output for the B rows, and the new state.
    """
    output, recurrent_state = rnn(pack_one_step_batch_as_sequences(batch_input), recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


def pack_and_forward(rnn: Callable[..., Any], sequences: Any, recurrent_state: Any) -> tuple[Any, Any]:
    """Compute all steps of a list of B sequences.

    Args:
        rnn: Recurrent module.
        sequences: List of B tensors [length, ...] (or nested tuples of tensors), sorted by descending length.
        recurrent_state: State before the first step. None for the initial state.

    Returns:
        The output for the packed rows, and the new state.
    """
    output, recurrent_state = rnn(pack_sequences_recursive(sequences), recurrent_state)
    return unwrap_packed_sequences_recursive(output), recurrent_state


# Packing


def batch_sizes_of(lengths: Tensor) -> Tensor:
    """Return `PackedSequence.batch_sizes`: for each time step, the number of sequences that have it, [max(lengths)].

    Args:
        lengths: Lengths, [B], int64, descending.

    Raises:
        ValueError: If the lengths are not positive and descending.
    """
    if len(lengths) == 0 or int(lengths[-1]) < 1 or bool((lengths[1:] > lengths[:-1]).any()):
        raise ValueError(f"lengths is {lengths.tolist()}, expected positive lengths in descending order")
    return (lengths > torch.arange(int(lengths[0])).unsqueeze(1)).sum(1)


def pack_sequences_recursive(sequences: Any) -> Any:
    """Pack a list of sequences. If the sequences are tuples or dicts, each of their items is packed separately.

    Raises:
        ValueError: If the list is empty, or if the lengths are not descending.
    """
    if len(sequences) == 0:
        raise ValueError("sequences is empty, expected at least one sequence")
    first = sequences[0]
    if isinstance(first, Tensor):
        try:
            return pack_sequence(sequences)
        except RuntimeError as error:
            raise ValueError(f"sequences has lengths {[*map(len, sequences)]}, expected descending lengths") from error
    if isinstance(first, tuple):
        return tuple(pack_sequences_recursive([sequence[i] for sequence in sequences]) for i in range(len(first)))
    if isinstance(first, dict):
        return {key: pack_sequences_recursive([sequence[key] for sequence in sequences]) for key in first}
    return sequences


def pack_one_step_batch_as_sequences(xs: Any) -> Any:
    """Convert a tensor [B, ...], or nested tuples and dicts of tensors, to B sequences of one step."""
    return wrap_packed_sequences_recursive(xs, torch.tensor([len(first_leaf(xs))]), None)


def wrap_packed_sequences_recursive(unwrapped: Any, batch_sizes: Tensor, sorted_indices: Tensor | None) -> Any:
    """Convert every tensor of packed rows to a `PackedSequence`. Return other objects unchanged.

    Args:
        unwrapped: A tensor [N, ...], or nested tuples and dicts of tensors.
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
    """Convert every `PackedSequence` to its packed rows; return other objects, such as an `ActionValue`, unchanged."""
    if isinstance(packed, PackedSequence):
        return packed.data
    if isinstance(packed, tuple):
        return tuple(unwrap_packed_sequences_recursive(part) for part in packed)
    if isinstance(packed, dict):
        return {key: unwrap_packed_sequences_recursive(part) for key, part in packed.items()}
    return packed


def unpack_sequences_as_one_step_batch(pack: Any) -> Any:
    """`unwrap_packed_sequences_recursive` under PFRL's name for sequences of one step.

    Args:
        pack: Nested tuples, and dicts, of `PackedSequence`s.
    """
    return unwrap_packed_sequences_recursive(pack)


def get_packed_sequence_info(packed: Any) -> tuple[Tensor, Tensor | None] | None:
    """Return `batch_sizes` and `sorted_indices` of the first `PackedSequence` in `packed`. None if there is none."""
    if isinstance(packed, PackedSequence):
        return packed.batch_sizes, packed.sorted_indices
    parts: Iterable[Any] = packed.values() if isinstance(packed, dict) else packed if isinstance(packed, tuple) else ()
    return next((info for info in map(get_packed_sequence_info, parts) if info is not None), None)


def flatten_sequences_time_first(sequences: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the items of sequences in packed order. The sequences must be sorted by descending length."""
    absent = object()
    steps = itertools.zip_longest(*sequences, fillvalue=absent)
    return [item for step in steps for item in step if item is not absent]


def max_over_sequences(values: Tensor, lengths: Tensor) -> Tensor:
    """Return the maximum absolute value in each sequence. Prioritised replay uses it as priority.

    Args:
        values: Value of each packed row, [N].
        lengths: Lengths of the sequences, [B], descending, on the CPU.

    Returns:
        Maxima, [B].
    """
    sequence = sequence_of_rows(lengths).to(values.device, non_blocking=values.is_cuda)
    return values.new_zeros(len(lengths)).scatter_reduce(0, sequence, values.abs(), "amax")


def sequence_of_rows(lengths: Tensor) -> Tensor:
    """Return the index of the sequence of each packed row, [N], on the CPU.

    Args:
        lengths: Lengths of the sequences, [B], descending, on the CPU.
    """
    return torch.cat([torch.arange(size) for size in batch_sizes_of(lengths).tolist()])


# States


def map_recurrent_state(function: Callable[[Any], Any], recurrent_state: Any) -> Any:
    """Apply a function to every tensor or array of a state. None stays None.

    Raises:
        ValueError: If the state contains anything but tensors, arrays, tuples and None.
    """
    if recurrent_state is None:
        return None
    if isinstance(recurrent_state, tuple):
        return tuple(map_recurrent_state(function, part) for part in recurrent_state)
    if isinstance(recurrent_state, Tensor | np.ndarray):
        return function(recurrent_state)
    raise ValueError(f"recurrent_state is {recurrent_state!r}, expected a tensor, a tuple of states, or None")


def mask_recurrent_state_at(recurrent_state: Any, indices: Any) -> Any:
    """Return a copy of a state in which some sequences are reset to zero.

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
    """Return the state of some sequences. If `indices` is an integer, tensors of the result are [layers, ...].

    Args:
        recurrent_state: State of B sequences.
        indices: An index, or several indices.
        detach: True to detach the result from the graph.
    """
    return map_recurrent_state(lambda state: (state.detach() if detach else state)[:, indices], recurrent_state)


def concatenate_recurrent_states(split_recurrent_states: Sequence[Any]) -> Any:
    """Concatenate the states of B single sequences to one state. `get_recurrent_state_at` returns such states.

    Args:
        split_recurrent_states: B states with tensors or arrays [layers, ...]. A state of None is replaced with zeros.

    Returns:
        A state with tensors or arrays [layers, B, ...]. None if all states are None.
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
    """Convert the tensors of a state to arrays."""
    return map_recurrent_state(lambda state: state.detach().cpu().numpy(), recurrent_state)


def recurrent_state_from_numpy(recurrent_state: Any, device: torch.device | str) -> Any:
    """Convert the arrays of a state to tensors on `device`."""
    return map_recurrent_state(lambda state: torch.from_numpy(state).to(device), recurrent_state)


def detach_recurrent_state(recurrent_state: Any) -> Any:
    """Return a state that is detached from the graph."""
    return map_recurrent_state(lambda state: state.detach(), recurrent_state)
