"""Checksums of all that an agent saves, of random streams, and of recorded data, which tell these from others."""

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
from pfrl_like.runs.loop import unknown
from pfrl_like.storage import plain_json
from pfrl_like.storage.plain_tensors import checksum

#: How names of random streams begin.
STREAM = "random stream "
#: Rows, evenly spread, by which a dataset is told from another; one in a mapped file need not be read whole.
_LOOKED_AT = 1024
_WRAPPED = re.compile(r"(?:\.env)+(?!\w)")


def checksums_of(agent: Any) -> dict[str, int]:
    """The checksum of everything that an agent saves, by name; empty for one without `state_dict`."""
    if not hasattr(agent, "state_dict"):
        return {}
    with isolated_rng():
        state = agent.state_dict()
    return {name: checksum(value) for name, value in _leaves("", state.get("attributes", state))}


def checksums_of_streams(*owners: Any) -> dict[str, int]:
    """The checksum of every random stream that can be reached from some objects, and of the global ones, by name.

    Names do not tell by how many wrappers a stream is reached, for a run may add one.
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
    """What a dataset says itself (`saved_state`, as `loop.Resumable`), or what tells it from others, for JSON.

    It is None of replay buffers, which are saved whole, by the run. Of data of a kind that nobody knows it says that it
    is not known, which makes the run "approximate".

    Raises:
        CheckpointError: If what a dataset says itself is not made of what JSON has.
    """
    kind = type(dataset).__name__
    if hasattr(dataset, "saved_state"):
        return plain_json(dataset.saved_state(), kind, "saved_state")
    if isinstance(dataset, AbstractReplayBuffer):
        return None
    if isinstance(dataset, MDPDataset):
        table, rows = dataset.table, 1 + _spread(dataset.table.n_rows)
        told = {"episodes": len(dataset), "steps": dataset.n_steps}
        return told | {"crc32": _checksum(table, rows, table.lengths, table.terminated)}
    if isinstance(dataset, Selection):
        table, index = dataset.dataset.table, dataset.index
        return {"steps": len(dataset), "crc32": _checksum(table, table.steps[index[_spread(len(dataset))]], index)}
    return unknown(f"the dataset is a {kind} without saved_state, which nothing tells from another one")


def restore_data(dataset: Any, state: Any) -> Sequence[str]:
    """Let a dataset take up what `state_of_data` gave, or compare it with that.

    Returns:
        How it differs; nothing if it does not.

    Raises:
        KeyError, TypeError, ValueError: By one with `restore_state`, if it is the state of something else.
    """
    if hasattr(dataset, "saved_state"):
        return dataset.restore_state(state) or ()
    now = state_of_data(dataset)
    return [] if state == now else [f"the dataset is another one: {now}, expected {state}"]


def _spread(n: int) -> Indices:
    """Some of the numbers below n, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, _LOOKED_AT).astype(np.int64))


def _checksum(table: Table, rows: Indices, *others: NDArray[Any]) -> int:
    return checksum((*others, table.observations(rows), table.action[rows - 1], table.reward[rows - 1]))
