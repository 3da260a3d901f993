"""Batches of sequences: bringing recurrent states up to date, and one number per sequence."""

from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.utils.recurrent import forward

ROW_FIELDS = (
    "obs", "action", "reward", "next_obs", "discount", "weight", "action_mask", "next_action_mask", "next_action"
)  # fmt: skip


def batch_sizes_of(lengths: Tensor) -> Tensor:
    """How many sequences reach each step, [max length], for lengths sorted in falling order."""
    steps = torch.arange(int(lengths[0]))
    return (lengths.unsqueeze(0) > steps.unsqueeze(1)).sum(dim=1)


def burn_in(module: Any, batch: Batch, n_steps: int) -> Batch:
    """Unroll a network over the first steps of each sequence and keep the rest (R2D2:
    Kapturowski et al. 2019, section 3).

    Args:
        module: Recurrent network; no gradient reaches it from here.
        batch: Sequences. Those of at most `n_steps` steps drop out, unless all are that short: then all but the last
            step of the longest are burnt.
        n_steps: Steps to burn.

    Returns:
        The remaining rows, with the recurrent states in which they begin.
    """
    assert batch.lengths is not None
    n_steps = min(n_steps, int(batch.lengths[0]) - 1)
    if n_steps == 0:
        return batch
    sizes = batch_sizes_of(batch.lengths)
    n_rows, n_left = int(sizes[:n_steps].sum()), int(sizes[n_steps])
    burnt = batch.lengths.clamp(max=n_steps)
    with torch.no_grad():
        states = [
            forward(module, map_nested(lambda leaf: leaf[:n_rows], obs), state, burnt)[1]
            for obs, state in ((batch.obs, batch.recurrent_state), (batch.next_obs, batch.next_recurrent_state))
        ]
    state, next_state = (map_nested(lambda leaf: leaf[:, :n_left].contiguous(), state) for state in states)
    rows = {name: map_nested(lambda leaf: leaf[n_rows:], getattr(batch, name)) for name in ROW_FIELDS}
    lengths = batch.lengths[:n_left] - n_steps
    return batch.replace(**rows, lengths=lengths, recurrent_state=state, next_recurrent_state=next_state)


def max_over_sequences(values: Tensor, lengths: Tensor, n_sequences: int) -> Tensor:
    """Largest absolute value of each sequence.

    Args:
        values: Rows packed time first, [sum(lengths)].
        lengths: Lengths in falling order, [k].
        n_sequences: Length of the result; sequences beyond the k-th, which have no rows, get 0.

    Returns:
        Shape [n_sequences].
    """
    sizes = batch_sizes_of(lengths)
    index = torch.cat([torch.arange(int(size)) for size in sizes]).to(values.device)
    largest = torch.zeros(n_sequences, dtype=values.dtype, device=values.device)
    return largest.scatter_reduce(0, index, values.abs(), "amax")
