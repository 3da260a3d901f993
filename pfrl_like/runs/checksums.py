"""Checksums of all that an agent saves, and of random streams."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from pfrl_like.random_streams.streams import GlobalStreams, Streams, isolated_rng, plain_state
from pfrl_like.storage.plain_tensors import checksum

#: How names of random streams begin.
STREAM = "random stream "


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
