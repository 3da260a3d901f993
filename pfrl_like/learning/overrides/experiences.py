"""Conversion between minibatches and PFRL's two formats: lists of transition dicts, and dicts of columns."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from pfrl_like.batch import ACTION_MASK, Batch, map_nested
from pfrl_like.utils.recurrent import sequence_of_rows


class ColumnsOfBatch(dict[str, Any]):
    """A minibatch with the keys of PFRL's `batch_experiences`. Overrides of PFRL's methods may change its values.

    The keys are `state`, `action`, `reward`, `next_state`, `is_state_terminal` (0 or 1) and `discount`. The first axis
    of each value is the batch. `discount` is gamma**n. In rows whose n steps ended in a terminal state, `discount` is
    gamma, not 0: as in PFRL, a loss multiplies it by `1 - is_state_terminal`. The keys `weights` (importance weights of
    prioritised replay), `next_action`, `action_mask` and `next_action_mask` exist if the batch has these columns. For
    sequences, `state` and `next_state` are lists of one tensor per sequence, and the keys `recurrent_state` and
    `next_recurrent_state` exist as well.

    Args:
        batch: Minibatch whose observations are features.
        gamma: Discount factor per step.
    """

    def __init__(self, batch: Batch, gamma: float) -> None:
        self.batch = batch
        terminal = (batch.discount == 0).float()
        columns = {
            "state": _by_sequence(batch.obs, batch),
            "action": batch.action,
            "reward": batch.reward,
            "next_state": _by_sequence(batch.next_obs, batch),
            "is_state_terminal": terminal,
            "discount": torch.where(terminal == 1, gamma, batch.discount),
            **{name: getattr(batch, field) for name, field in _FIELDS.items() if getattr(batch, field) is not None},
        }
        if batch.lengths is not None:
            columns |= {name: getattr(batch, name) for name in ("recurrent_state", "next_recurrent_state")}
        super().__init__(columns)
        self._original = dict(columns)

    def to_batch(self) -> Batch:
        """Return a batch with the current values of this dict."""
        names = {**_FIELDS, "state": "obs", "action": "action", "reward": "reward", "next_state": "next_obs"}
        names |= {name: name for name in ("recurrent_state", "next_recurrent_state") if name in self}
        changed = {field: self[name] for name, field in names.items() if self.get(name) is not self._original.get(name)}
        return self.batch.replace(discount=self["discount"] * (1 - self["is_state_terminal"]), **changed)


#: Names of optional columns of a `Batch`, keyed by PFRL's names for them.
_FIELDS = {"weights": "weight", **{name: name for name in ("next_action", ACTION_MASK, "next_action_mask")}}


def to_batch(columns: Batch | Mapping[str, Any]) -> Batch:
    """Convert the minibatch that a method of PFRL's agent receives to a `Batch`.

    Args:
        columns: A `Batch`, a `ColumnsOfBatch`, or the result of `batch_experiences`.

    Raises:
        TypeError: If `columns` has a different type, or is the result of `batch_recurrent_experiences`.
    """
    if isinstance(columns, Batch):
        return columns
    if isinstance(columns, ColumnsOfBatch):
        return columns.to_batch()
    required = {"state", "action", "reward", "next_state", "is_state_terminal", "discount"}
    if not isinstance(columns, Mapping) or not required <= columns.keys() or isinstance(columns["state"], list):
        got = f"a dict with {sorted(columns)}" if isinstance(columns, Mapping) else type(columns).__name__
        raise TypeError(f"batch is {got}, expected the result of batch_experiences, or a Batch")
    discount = columns["discount"] * (1 - columns["is_state_terminal"])
    optional = {field: columns[name] for name, field in _FIELDS.items() if name in columns}
    return Batch(columns["state"], columns["action"], columns["reward"], columns["next_state"], discount, **optional)


def experiences_of(batch: Batch, gamma: float) -> list[list[dict[str, Any]]]:
    """Return a minibatch of raw observations in the format of `ReplayBuffer.sample`, a list of items.

    If the batch contains transitions, an item is a list of n transition dicts. The first dict contains the sum of the n
    rewards, the others a reward of 0. If the batch contains sequences, an item is one sequence, with one dict per step.

    Args:
        batch: Transitions or sequences.
        gamma: Discount factor per step. n is computed from `gamma` and the discounts of the batch.
    """
    columns = {
        "state": batch.obs,
        "action": batch.action,
        "next_state": batch.next_obs,
        **{name: getattr(batch, field) for name, field in _FIELDS.items()},
    }
    arrays = {name: map_nested(lambda leaf: leaf.numpy(force=True), column) for name, column in columns.items()}
    reward, discount = batch.reward.tolist(), batch.discount.tolist()
    steps = [
        {
            **{name: map_nested(lambda leaf: leaf[i], column) for name, column in arrays.items() if column is not None},  # noqa: B023
            "reward": reward[i],
            "is_state_terminal": discount[i] == 0,
            "env_id": 0,
        }
        for i in range(len(reward))
    ]
    for step in steps:
        step.setdefault("next_action", None)
        if "weights" in step:
            step["weight"] = float(step.pop("weights"))
    if batch.lengths is not None:
        return _sequences(steps, batch)
    return [[step, *_padding_dicts(step, each, gamma)] for step, each in zip(steps, discount, strict=True)]


def _padding_dicts(first: dict[str, Any], discount: float, gamma: float) -> list[dict[str, Any]]:
    """Return n - 1 copies of the first of n transition dicts, with the reward 0."""
    n_steps = round(math.log(discount) / math.log(gamma)) if 0 < gamma < 1 and discount > 0 else 1
    return [{**first, "reward": 0.0} for _ in range(n_steps - 1)]


def _sequences(steps: list[dict[str, Any]], batch: Batch) -> list[list[dict[str, Any]]]:
    assert batch.lengths is not None
    items = [[steps[row] for row in rows.tolist()] for rows in _rows_of_sequences(batch.lengths)]
    for name in ("recurrent_state", "next_recurrent_state"):
        state = getattr(batch, name)
        for i, item in enumerate(items if state is not None else ()):
            item[0][name] = map_nested(lambda leaf: leaf[:, i].numpy(force=True), state)  # noqa: B023
    return items


def _by_sequence(packed: Any, batch: Batch) -> Any:
    """Split packed rows into a list of one tensor per sequence. If the batch has no sequences, return `packed`."""
    if batch.lengths is None:
        return packed
    order = _rows_of_sequences(batch.lengths)
    return [map_nested(lambda leaf: leaf[rows.to(leaf.device)], packed) for rows in order]  # noqa: B023


def _rows_of_sequences(lengths: Tensor) -> Sequence[Tensor]:
    """Return the packed row numbers of each sequence, one tensor per sequence, in time order."""
    return torch.split(sequence_of_rows(lengths).argsort(stable=True), lengths.tolist())
