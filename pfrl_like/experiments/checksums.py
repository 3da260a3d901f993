"""Checksums of what runs see, do and learn: of observations, actions, rewards, and of all that an agent saves."""

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from pfrl_like.utils.isolated_rng import isolated_rng
from pfrl_like.utils.random_streams import GlobalStreams, Streams, plain_state

#: How names of random streams begin.
STREAM = "random stream "
_WRAPPED = re.compile(r"(?:\.env)+(?!\w)")
_DOUBLE = struct.Struct("<d")


def checksum(value: Any, start: int = 0) -> int:
    """The CRC-32 of an observation, action or reward, going on from another; of stacked frames that of the newest."""
    if type(value) is float:
        value = _DOUBLE.pack(value)
    elif type(value) is int:
        value = b"%d" % value
    try:
        return zlib.crc32(value, start)  # of arrays, and NumPy's numbers
    except (TypeError, ValueError, BufferError):
        return _checksum_of_others(value, start)


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


def _checksum_of_others(value: Any, start: int) -> int:
    if isinstance(value, Mapping):
        value = [item for pair in value.items() for item in pair]
    frames = getattr(value, "_frames", None)
    if isinstance(frames, list | tuple):
        value = frames[-1]
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            return start  # nobody waits for a GPU
        value = _bytes_of(value)
    if isinstance(value, list | tuple):
        for item in value:
            start = checksum(item, start)
        return start
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O":
        return zlib.crc32(np.ascontiguousarray(value).data, start)
    return zlib.crc32(repr(value).encode(), start)


def _bytes_of(tensor: torch.Tensor) -> Any:
    if not tensor.numel():
        return ()
    try:
        whole = tensor.detach().clone(memory_format=torch.contiguous_format)  # one number may have any stride
        return whole.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError):  # sparse, quantised and the like
        return repr(tensor).encode()


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield name, value.cpu() if isinstance(value, torch.Tensor) else value
        return
    for key, item in items:
        yield from _leaves(f"{name}.{key}" if name else str(key), item)
