"""What environments draw from the global random streams, which they share with everybody."""

import base64
import random
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from pfrl_like.storage.json_file import FLOOR, RATIO

_PYTHON, _NUMPY = struct.Struct("<625I?d"), struct.Struct("<2496si?d")
_Content = bytes | memoryview
_EVERY = 256
_CALL = 8  # characters that even the shortest text of a call has


def _python() -> bytes:
    _, numbers, gauss = random.getstate()
    return _PYTHON.pack(*numbers, gauss is not None, gauss or 0.0)


def _set_python(content: _Content) -> None:
    *numbers, has_gauss, gauss = _PYTHON.unpack(content)
    random.setstate((3, tuple(numbers), gauss if has_gauss else None))


def _numpy() -> bytes:
    state: Any = np.random.get_state()
    if isinstance(state, dict):  # another generator took the place of NumPy's own
        return bytes(_NUMPY.size)
    return _NUMPY.pack(state[1].tobytes(), *state[2:])


def _set_numpy(content: _Content) -> None:
    key, *rest = _NUMPY.unpack(content)
    np.random.set_state(("MT19937", np.frombuffer(key, np.uint32), *rest))


def _torch() -> bytes:
    return bytes(torch.get_rng_state().numpy())


def _set_torch(content: _Content) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(content), dtype=torch.uint8))


_STREAMS: dict[str, tuple[Callable[[], bytes], Callable[[_Content], None]]] = {
    "python": (_python, _set_python),
    "numpy": (_numpy, _set_numpy),
    "torch": (_torch, _set_torch),
}


class GlobalDraws:
    """Keeps the states of the global streams from which an environment draws, before each of its calls in an episode.

    Others draw from them between its calls, so that the states at the beginning do not tell those later on. Which ones
    it draws from is looked at in the first calls, and in every 256th after them.

    Args:
        first: How many calls are the first ones.

    Attributes:
        names: The streams that it has been seen to draw from.
        nbytes: What is kept of this episode takes about as much, in memory or in a file.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.names: set[str] = set()
        self._calls = self._looked = 0
        self.clear()

    def clear(self) -> None:
        """Begin an episode."""
        self._kept: list[tuple[int, str]] = []
        self._chunks: list[bytes] = []
        self._compressor: Any = None  # it takes some memory
        self.nbytes = 0

    @property
    def interval(self) -> int:
        """Calls after which the next one for `call` comes."""
        return 1 if self.names or self._calls < self._first else _EVERY

    @property
    def are_due(self) -> bool:
        """Whether the next call is one for `call`."""
        return bool(self.names) or self._looks

    @property
    def _looks(self) -> bool:
        return self._calls < self._first or self._calls - self._looked >= _EVERY

    def count(self, calls: int) -> None:
        """Tell of calls that were made."""
        self._calls += calls

    def call(self, position: int, act: Callable[[], Any]) -> Any:
        """Act, and keep the states before it that are needed to do so again, at this number of an episode."""
        if looks := self._looks:
            self._looked = self._calls
        before = {name: take() for name, (take, _) in _STREAMS.items() if looks or name in self.names}
        result = act()
        if looks:
            self.names |= {name for name, state in before.items() if state != _STREAMS[name][0]()}
        for name in sorted(self.names):
            self._compressor = self._compressor or zlib.compressobj()
            self._kept.append((position, name))
            self._chunks.append(self._compressor.compress(before[name]))
            self.nbytes += 128 + 2 * len(self._chunks[-1])
        return result

    def to_plain(self) -> dict[str, Any]:
        """What was kept of the episode."""
        end = (self._compressor or zlib.compressobj()).copy().flush()
        content = b"".join(self._chunks) + end
        return {"calls": [list(item) for item in self._kept], "states": base64.b64encode(content).decode()}


def kept_states(plain: Mapping[str, Any]) -> dict[int, list[Callable[[], None]]]:
    """For each call that draws, what lets its streams be as they were; `plain` comes from `GlobalDraws.to_plain`.

    Raises:
        ValueError: If it does not.
    """
    sizes = {name: len(take()) for name, (take, _) in _STREAMS.items()}
    restoring: dict[int, list[Callable[[], None]]] = {}
    try:
        total = sum(sizes[name] for _, name in plain["calls"])
        most = max(FLOOR, RATIO * (len(plain["states"]) + _CALL * len(plain["calls"])))
        if total > most:
            raise ValueError(f"{total} bytes in a text that may hold {most}")
        packed = base64.b64decode(plain["states"], validate=True)
        content = memoryview(zlib.decompressobj().decompress(packed, total + 1))
        if len(content) != total:
            raise ValueError(f"{len(content)} bytes, expected {total}")
        start = 0
        for position, name in plain["calls"]:
            state, start = content[start : start + sizes[name]], start + sizes[name]
            restoring.setdefault(position, []).append(partial(_STREAMS[name][1], state))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise ValueError(f"states of the global random streams cannot be read: {error!r:.200}") from error
    return restoring
