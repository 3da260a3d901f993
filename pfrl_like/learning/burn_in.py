"""Burn-in of recurrent networks (Kapturowski et al. 2019, R2D2, section 3, openreview.net/forum?id=r1lyTjAqYX)."""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import Batch, map_nested
from pfrl_like.utils.recurrent import batch_sizes_of, forward, map_recurrent_state

#: What belongs to a sequence as a whole, or says how the rows are arranged.
_NOT_BY_ROW = ("index", "lengths", "recurrent_state", "next_recurrent_state")


def burn_in(module: Callable[..., Any], batch: Batch, n_steps: int) -> Batch:
    """Spend the first steps of each sequence on bringing its recurrent state up to date.

    Args:
        module: The network whose state is brought up to date; without effect on the state if it is not recurrent.
        batch: Sequences, with features as `obs`.
        n_steps: Steps to take off each sequence; one that is not longer keeps its last step.

    Returns:
        The rest of the sequences, as many as before and in the same order, with the states before and after their
        first step as the module now computes them (the stored ones would be those of the parameters that acted).
    """
    lengths = batch.lengths
    if lengths is None or n_steps == 0:
        return batch
    burnt = torch.clamp(lengths - 1, max=n_steps)
    before = packed_rows(lengths, torch.zeros_like(burnt), burnt)
    rest = packed_rows(lengths, burnt, lengths)
    with torch.no_grad():
        states = {
            "recurrent_state": _advance(module, batch.obs, before, batch.recurrent_state, burnt),
            "next_recurrent_state": _advance(module, batch.next_obs, before, batch.next_recurrent_state, burnt),
        }
    fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch)}
    rows = {k: map_nested(lambda leaf: leaf[rest], v) for k, v in fields.items() if k not in _NOT_BY_ROW}
    return batch.replace(**rows, **states, lengths=lengths - burnt)


def packed_rows(lengths: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """Packed row numbers of steps start..stop-1 of each sequence, packed in their turn.

    Args:
        lengths: Lengths of the sequences, [B], falling.
        start: First step that is wanted of each, [B].
        stop: Step after the last one that is wanted of each, [B]; `stop - start` must be falling.
    """
    first_row = torch.cat([torch.zeros(1, dtype=torch.int64), batch_sizes_of(lengths).cumsum(0)])
    step = torch.arange(int((stop - start).max())).unsqueeze(1) + start
    row = first_row[step.clamp(max=len(first_row) - 1)] + torch.arange(len(lengths))
    return row[step < stop]


def _advance(module: Callable[..., Any], inputs: Any, rows: Tensor, state: Any, n_steps: Tensor) -> Any:
    """State of all sequences after `n_steps` [B] of them; those with none, which come last, keep theirs."""
    running = int((n_steps > 0).sum())
    if running == 0:
        return state
    begun = map_recurrent_state(lambda part: part[:, :running].contiguous(), state)
    inputs = map_nested(lambda leaf: leaf[rows], inputs)
    advanced = forward(module, inputs, begun, n_steps[:running])[1]
    return _join(advanced, state, len(n_steps) - running)


def _join(advanced: Any, state: Any, n_waiting: int) -> Any:
    if isinstance(advanced, tuple):
        parts = (None,) * len(advanced) if state is None else state
        return tuple(_join(part, old, n_waiting) for part, old in zip(advanced, parts, strict=True))
    if advanced is None or n_waiting == 0:
        return advanced
    waiting = advanced.new_zeros(advanced.shape[0], n_waiting, *advanced.shape[2:])
    return torch.cat([advanced, waiting if state is None else state[:, -n_waiting:]], dim=1)
