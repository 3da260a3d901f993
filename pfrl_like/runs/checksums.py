"""Checksums of an agent's saved state, of random streams, and of datasets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pfrl_like.columns import Indices
from pfrl_like.dataset import MDPDataset
from pfrl_like.dataset.selection import Selection
from pfrl_like.dataset.table import Table
from pfrl_like.random_streams.streams import GlobalStreams, Streams, isolated_rng, plain_state
from pfrl_like.replay_buffer import AbstractReplayBuffer
from pfrl_like.runs.loop import unknown_state
from pfrl_like.storage import plain_json
from pfrl_like.storage.plain_tensors import checksum

#: Prefix of the names in the result of `checksums_of_streams`.
STREAM = "random stream "
#: Number of evenly spread rows in the checksum of a dataset. The checksum does not include all rows, so that a
#: memory-mapped file need not be read completely.
_N_ROWS = 1024
_WRAPPED = re.compile(r"(?:\.env)+(?!\w)")


def checksums_of(agent: Any) -> dict[str, int]:
    """Return the checksum of every saved value of an agent, keyed by name; empty if the agent has no `state_dict`."""
    if not hasattr(agent, "state_dict"):
        return {}
    with isolated_rng():
        state = agent.state_dict()
    return {name: checksum(value) for name, value in _leaves("", state.get("attributes", state))}


def checksums_of_streams(*owners: Any) -> dict[str, int]:
    """Return the checksums of the global random streams and of all streams inside `owners`, keyed by name.

    The names do not depend on the number of wrappers around an environment, since a run may add a wrapper.
    """
    sums: dict[str, int] = {}
    for owner, state in Streams.of(*owners).now().items():
        parts = state._asdict() if isinstance(state, GlobalStreams) else {"": state}
        for part, value in parts.items():
            name = STREAM + _WRAPPED.sub(".env", owner) + f".{part}" * bool(part)
            sums[name] = checksum(repr(plain_state(value)).encode(), sums.get(name, 0))
    return sums


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield name, value.cpu() if isinstance(value, torch.Tensor) else value
        return
    for key, item in items:
        yield from _leaves(f"{name}.{key}" if name else str(key), item)


def state_of_data(dataset: Any) -> Any:
    """Return the result of the dataset's `saved_state`. If it has none, return its sizes and a checksum as JSON values.

    For a replay buffer the result is None, since the run saves replay buffers completely. If the dataset has no
    `saved_state` and is not an `MDPDataset`, a selection of its rows or a replay buffer, its state is unknown, and
    resumed runs are "approximate".

    Raises:
        CheckpointError: If the dataset's `saved_state` contains values that JSON cannot represent.
    """
    kind = type(dataset).__name__
    if hasattr(dataset, "saved_state"):
        return plain_json(dataset.saved_state(), kind, "saved_state")
    if isinstance(dataset, AbstractReplayBuffer):
        return None
    if isinstance(dataset, MDPDataset):
        table, rows = dataset.table, 1 + _spread_indices(dataset.table.n_rows)
        sizes = {"episodes": len(dataset), "steps": dataset.n_steps}
        return sizes | {"crc32": _table_checksum(table, rows, table.lengths, table.terminated)}
    if isinstance(dataset, Selection):
        table, index = dataset.dataset.table, dataset.index
        rows = table.steps[index[_spread_indices(len(dataset))]]
        return {"steps": len(dataset), "crc32": _table_checksum(table, rows, index)}
    return unknown_state(f"the dataset is {kind}, which has no saved_state and cannot be identified")


def restore_data(dataset: Any, state: Any) -> Sequence[str]:
    """Restore the result of `state_of_data`. If the dataset has no `saved_state`, only compare it with this result.

    Returns:
        A list of differences. It is empty if the dataset is the same.

    Raises:
        KeyError, TypeError, ValueError: If `restore_state` of the dataset rejects the state.
    """
    if hasattr(dataset, "saved_state"):
        return dataset.restore_state(state) or ()
    now = state_of_data(dataset)
    return [] if state == now else [f"the dataset differs: {now}, expected {state}"]


def _spread_indices(n: int) -> Indices:
    """Return evenly spread integers from 0 to n - 1, including 0 and n - 1."""
    return np.unique(np.linspace(0, n - 1, _N_ROWS).astype(np.int64))


def _table_checksum(table: Table, rows: Indices, *others: NDArray[Any]) -> int:
    return checksum((*others, table.observations(rows), table.action[rows - 1], table.reward[rows - 1]))
