"""Saving, restoring and isolating the states of random streams of programs, environments and functions."""

import base64
import contextlib
import hashlib
import random
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from pfrl_like.random_streams.reachable import Reachable

_GLOBAL = "global"
_STATE_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, OverflowError)
_PYTHON, _NUMPY = struct.Struct("<625I?d"), struct.Struct("<2496si?d")
_Content = bytes | memoryview
_CHECK_INTERVAL = 256
#: A text may be decompressed to max(`_MIN_LIMIT`, `_BYTES_PER_CHARACTER` * number of characters) bytes.
_MIN_LIMIT, _BYTES_PER_CHARACTER = 1 << 26, 128
_CHARACTERS_PER_CALL = 8  # number of characters of the shortest text of a call


def get_rng_state(rng: Any) -> Any:
    """Return the state of a generator of NumPy, `random` or torch, in the types of its library.

    The state of a NumPy generator is a dict of numbers, strings, arrays and dicts. If `rng` is None, return None.
    """
    if isinstance(rng, random.Random):
        return rng.getstate()
    if isinstance(rng, torch.Generator):
        return rng.get_state()
    if isinstance(rng, np.random.RandomState):
        return rng.get_state(legacy=False)
    return None if rng is None else getattr(rng, "bit_generator", rng).state


def legacy_rng(state: Any) -> np.random.RandomState | None:
    """Return a new `RandomState` with a state that `get_rng_state` returned. If `state` is None, return None.

    Raises:
        ValueError: If the state belongs to another type of generator.
    """
    rng = None if state is None else np.random.RandomState()
    set_rng_state(rng, state)
    return rng


def set_rng_state(rng: Any, state: Any) -> None:
    """Restore a state that `get_rng_state` returned, or the result of `plain_state` for such a state.

    Raises:
        ValueError: If the state belongs to another type of generator, or if only one of `rng` and `state` is None.
    """
    if (rng is None) != (state is None):
        kinds = ("a generator", "the global stream (rng=None)")
        raise ValueError(f"the saved rng does not match: got {kinds[state is None]}, expected {kinds[rng is None]}")
    try:
        if isinstance(rng, random.Random):
            version, numbers, gauss = state
            rng.setstate((version, tuple(numbers), gauss))
        elif isinstance(rng, torch.Generator):
            rng.set_state(_from_hex(state) if isinstance(state, str) else state)
        elif isinstance(rng, np.random.RandomState):
            rng.set_state(state)
        elif rng is not None:
            getattr(rng, "bit_generator", rng).state = state
    except _STATE_ERRORS as error:
        raise ValueError(f"the saved rng does not match: {error}") from error


class GlobalStreams(NamedTuple):
    """The states of the global streams of `random`, NumPy and torch.

    Attributes:
        python: State of `random`.
        numpy: State of NumPy's global stream.
        torch: State of torch on the CPU.
        cuda: State of torch on each GPU. None if CUDA is not initialised.
    """

    python: Any
    numpy: Any
    torch: Tensor
    cuda: Sequence[Tensor] | None

    @classmethod
    def now(cls) -> Self:
        """Return the current states."""
        uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        cuda = torch.cuda.get_rng_state_all() if uses_cuda else None
        return cls(random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Set the global streams to these states.

        Raises:
            ValueError: If there are fewer GPUs than saved states. The other streams are restored.
        """
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.cuda is not None:
            if torch.cuda.device_count() < len(self.cuda):
                raise ValueError(f"cuda: got {len(self.cuda)} states, but only {torch.cuda.device_count()} GPUs exist")
            torch.cuda.set_rng_state_all(self.cuda)

    def to_plain(self) -> dict[str, Any]:
        """Return the states as numbers, strings, lists and dicts."""
        cuda = None if self.cuda is None else [_hex(state) for state in self.cuda]
        return {"python": self.python, "numpy": plain_state(self.numpy), "torch": _hex(self.torch), "cuda": cuda}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """Return the states that `to_plain` converted. The argument may have been saved as JSON.

        Raises:
            KeyError: If a state is missing.
            TypeError: If a value has the wrong type.
            ValueError: If a value is invalid.
        """
        version, numbers, gauss = plain["python"]
        cuda = None if plain["cuda"] is None else [_from_hex(text) for text in plain["cuda"]]
        return cls((version, tuple(numbers), gauss), dict(plain["numpy"]), _from_hex(plain["torch"]), cuda)


class Streams:
    """The random streams that can be reached from some objects, keyed by name, and the global streams.

    Attributes:
        unknown: Names of objects that may use random numbers but whose state cannot be saved.
    """

    def __init__(self, generators: Mapping[str, Any], unknown: list[str], with_global: bool) -> None:
        self._generators, self.unknown, self._with_global = generators, unknown, with_global

    @classmethod
    def of(cls, *owners: Any, with_global: bool = True) -> Self:
        """Find the streams of environments, spaces, agents, functions and other objects; see `Reachable`.

        Args:
            *owners: The objects. None is ignored. To restore streams, pass the objects in the same order as when the
                streams were saved.
            with_global: True to include the global streams of `random`, NumPy and torch.
        """
        reached, names = Reachable(), Counter[str]()
        for owner in owners:
            name = getattr(owner, "__qualname__", type(owner).__name__)
            names[name] += 1
            reached.visit(owner, name if names[name] == 1 else f"{name}-{names[name]}")
        return cls(reached.found, reached.unknown, with_global)

    @property
    def names(self) -> set[str]:
        """Names of the streams."""
        return {*self._generators, *([_GLOBAL] if self._with_global else [])}

    def now(self) -> dict[str, Any]:
        """Return the current states, keyed by name, in the types of their libraries. This is faster than `to_plain`."""
        states = {name: get_rng_state(generator) for name, generator in self._generators.items()}
        return {_GLOBAL: GlobalStreams.now(), **states} if self._with_global else states

    def to_plain(self) -> dict[str, Any]:
        """Return the current states by name, as numbers, strings, lists and dicts."""
        return {name: plain_state(state) for name, state in self.now().items()}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Set the streams to the states that `to_plain` returned. The argument may have been saved as JSON.

        Raises:
            ValueError: If the names differ or a state is invalid. The valid states are restored.
        """
        if not isinstance(plain, Mapping):
            raise ValueError(f"random streams are {type(plain).__name__}, expected a dict")
        generators = {**self._generators, **({_GLOBAL: None} if self._with_global else {})}
        wrong = [f"{name} does not exist" for name in plain if name not in generators]
        wrong += [f"the state of {name} is missing" for name in generators if name not in plain]
        for name in generators.keys() & plain.keys():
            try:
                if name == _GLOBAL:
                    GlobalStreams.from_plain(plain[name]).restore()
                else:
                    set_rng_state(generators[name], plain[name])
            except _STATE_ERRORS as error:
                wrong.append(f"{name}: {error!r:.200}")
        if wrong:
            raise ValueError(f"random streams do not match: {'; '.join(sorted(wrong))}")


def plain_state(state: Any) -> Any:
    """Convert the state of a generator, or the states of all global streams, to dicts, lists, strings and numbers."""
    if isinstance(state, GlobalStreams):
        return state.to_plain()
    if isinstance(state, Tensor):
        return _hex(state)
    if isinstance(state, dict):
        return {key: plain_state(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state


def _hex(state: Tensor) -> str:
    return bytes(state.numpy()).hex()


def _from_hex(text: str) -> Tensor:
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)


def bits_of(generator: Any) -> Any:
    """Return the bit generator that contains the state of a `Generator` or `RandomState`. None for other objects."""
    return getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)  # of a RandomState


def spaces_with_streams(source: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (space, generator) for a space and all spaces inside it, or for an environment's action spaces.

    Args:
        source: A space, an environment, or None for no spaces.
    """
    if source is None:
        return
    if not hasattr(source, "sample"):  # an environment
        for name in ("action_space", "single_action_space"):
            yield from spaces_with_streams(getattr(source, name, None))
        return
    parts = getattr(source, "spaces", None)
    if not isinstance(parts, Mapping | tuple | list):
        parts = None  # an attribute of another object, such as a mock
    if parts is not None:
        for part in parts.values() if isinstance(parts, Mapping) else parts:
            yield from spaces_with_streams(part)
    # A composite space without a generator would seed its parts when `np_random` is read.
    generator = getattr(source, "np_random" if parts is None else "_np_random", None)
    if bits_of(generator) is not None:
        yield source, generator


def global_entropy() -> int:
    """Return a number that depends on the state of the global NumPy stream. The stream is not changed."""
    state = repr(plain_state(np.random.get_state(legacy=False)))  # the same text in all versions of NumPy
    return int.from_bytes(hashlib.sha256(state.encode()).digest()[:8], "little")


@contextlib.contextmanager
def isolated_rng(*sources: Any) -> Iterator[None]:
    """Save the random streams before a block and restore them after the block, also after an error.

    The streams are the global streams of `random`, NumPy and torch (CPU, and CUDA if it is initialised), and the
    streams of the given spaces. Saving and restoring take about 0.15 ms.

    Args:
        *sources: Spaces or environments. For an environment, its action spaces are used. None is ignored.
    """
    streams = GlobalStreams.now()
    pairs = [each for source in sources for each in spaces_with_streams(source)]
    states = [bits_of(generator).state for _, generator in pairs]
    try:
        yield
    finally:
        streams.restore()
        for (space, generator), state in zip(pairs, states, strict=True):
            bits_of(generator).state = state
            if getattr(space, "_np_random", None) is not generator:  # `seed` has created a new generator
                space._np_random = generator


def _python() -> bytes:
    _, numbers, gauss = random.getstate()
    return _PYTHON.pack(*numbers, gauss is not None, gauss or 0.0)


def _set_python(content: _Content) -> None:
    *numbers, has_gauss, gauss = _PYTHON.unpack(content)
    random.setstate((3, tuple(numbers), gauss if has_gauss else None))


def _numpy() -> bytes:
    state: Any = np.random.get_state()
    if isinstance(state, dict):  # NumPy's bit generator was replaced
        return bytes(_NUMPY.size)
    return _NUMPY.pack(state[1].tobytes(), *state[2:])


def _set_numpy(content: _Content) -> None:
    key, *rest = _NUMPY.unpack(content)
    np.random.set_state(("MT19937", np.frombuffer(key, np.uint32), *rest))


def _set_torch(content: _Content) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(content), dtype=torch.uint8))


_STREAMS: dict[str, tuple[Callable[[], bytes], Callable[[_Content], None]]] = {
    "python": (_python, _set_python),
    "numpy": (_numpy, _set_numpy),
    "torch": (lambda: bytes(torch.get_rng_state().numpy()), _set_torch),
}


class GlobalDraws:
    """Records the states of the global streams that an environment uses, before each call of the environment.

    Other code uses these streams between the calls, so their states at the beginning of the episode are not sufficient.
    To find the streams that the environment uses, the first calls, and later every 256th call, are checked.

    Args:
        first: Number of calls, counted from the first one, that are all checked.

    Attributes:
        names: Names of the global streams that the environment has used in a checked call.
        nbytes: Approximate size of the stored states of this episode in bytes, in memory or in a file.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self.names: set[str] = set()
        self._calls = self._last_check = 0
        self.clear()

    def clear(self) -> None:
        """Begin an episode: delete the stored states."""
        self._positions: list[tuple[int, str]] = []
        self._chunks: list[bytes] = []
        self._compressor: Any = None  # created only if needed, because it uses memory
        self.nbytes = 0

    @property
    def interval(self) -> int:
        """Number of successive calls of the environment. At least one of them must be made through `call`."""
        return 1 if self.names or self._calls < self._first else _CHECK_INTERVAL

    @property
    def are_due(self) -> bool:
        """True if the next call must be made through `call`."""
        return bool(self.names) or self._check_is_due

    @property
    def _check_is_due(self) -> bool:
        return self._calls < self._first or self._calls - self._last_check >= _CHECK_INTERVAL

    def count(self, calls: int) -> None:
        """Count calls that were made, through `call` or directly."""
        self._calls += calls

    def call(self, position: int, act: Callable[[], Any]) -> Any:
        """Call `act` and store the states of the streams before the call, so that the call can be repeated.

        Args:
            position: Number of the call in the episode.
            act: Function that makes the environment's call.

        Returns:
            The result of `act`.
        """
        if is_checked := self._check_is_due:
            self._last_check = self._calls
        before = {name: take() for name, (take, _) in _STREAMS.items() if is_checked or name in self.names}
        result = act()
        if is_checked:
            self.names |= {name for name, state in before.items() if state != _STREAMS[name][0]()}
        for name in sorted(self.names):
            self._compressor = self._compressor or zlib.compressobj()
            self._positions.append((position, name))
            self._chunks.append(self._compressor.compress(before[name]))
            self.nbytes += 128 + 2 * len(self._chunks[-1])
        return result

    def to_plain(self) -> dict[str, Any]:
        """Return the stored states of the episode, as JSON."""
        end = (self._compressor or zlib.compressobj()).copy().flush()
        content = b"".join(self._chunks) + end
        return {"calls": [list(item) for item in self._positions], "states": base64.b64encode(content).decode()}


def state_restorers(plain: Mapping[str, Any]) -> dict[int, list[Callable[[], None]]]:
    """Return functions that restore the streams. The key is the number of the call before which to call the functions.

    Args:
        plain: The result of `GlobalDraws.to_plain`.

    Raises:
        ValueError: If `plain` is not a result of `GlobalDraws.to_plain`.
    """
    sizes = {name: len(take()) for name, (take, _) in _STREAMS.items()}
    restoring: dict[int, list[Callable[[], None]]] = {}
    try:
        total = sum(sizes[name] for _, name in plain["calls"])
        length = len(plain["states"]) + _CHARACTERS_PER_CALL * len(plain["calls"])
        limit = max(_MIN_LIMIT, _BYTES_PER_CHARACTER * length)
        if total > limit:
            raise ValueError(f"the text describes {total} bytes, expected at most {limit}")
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
