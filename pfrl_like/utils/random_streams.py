"""The states of random streams: of the global ones, and of those that belong to environments and spaces."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor


class GlobalStreams(NamedTuple):
    """The states of the global streams of `random`, NumPy and torch.

    Attributes:
        python: Of `random`.
        numpy: Of NumPy.
        torch: Of torch on the CPU.
        cuda: Of torch on each GPU; None before CUDA has been initialised.
    """

    python: Any
    numpy: Any
    torch: Tensor
    cuda: Sequence[Tensor] | None

    @classmethod
    def now(cls) -> Self:
        """As they are."""
        uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        cuda = torch.cuda.get_rng_state_all() if uses_cuda else None
        return cls(random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Make them be so again, those of GPUs where there are as many."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        torch.set_rng_state(self.torch)
        if self.cuda is not None and torch.cuda.device_count() >= len(self.cuda):
            torch.cuda.set_rng_state_all(self.cuda)

    def to_plain(self) -> dict[str, Any]:
        """As numbers, text, lists and dicts."""
        cuda = None if self.cuda is None else [_hex(state) for state in self.cuda]
        return {"python": self.python, "numpy": self.numpy, "torch": _hex(self.torch), "cuda": cuda}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """What `to_plain` gave, also after it was written as JSON.

        Raises:
            KeyError: If something is missing.
            TypeError: If it is something else.
            ValueError: Likewise.
        """
        version, numbers, gauss = plain["python"]
        cuda = None if plain["cuda"] is None else [_from_hex(text) for text in plain["cuda"]]
        return cls((version, tuple(numbers), gauss), dict(plain["numpy"]), _from_hex(plain["torch"]), cuda)


def _hex(state: Tensor) -> str:
    return bytes(state.tolist()).hex()


def _from_hex(text: str) -> Tensor:
    return torch.tensor(list(bytes.fromhex(text)), dtype=torch.uint8)


def bits_of(generator: Any) -> Any:
    """What holds the state of a NumPy generator of either kind; None of something else."""
    return getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)  # RandomState: _


def spaces_with_streams(source: Any) -> Iterator[tuple[Any, Any]]:
    """The spaces that a space is made of, or those of an environment's actions, each with its generator.

    Args:
        source: A space, an environment, or None, which has none.
    """
    if source is None:
        return
    if not hasattr(source, "sample"):  # an environment
        for name in ("action_space", "single_action_space"):
            yield from spaces_with_streams(getattr(source, name, None))
        return
    parts = getattr(source, "spaces", None)
    if not isinstance(parts, Mapping | tuple | list):
        parts = None  # those of something else, such as a mock
    if parts is not None:
        for part in parts.values() if isinstance(parts, Mapping) else parts:
            yield from spaces_with_streams(part)
    # Asking a space made of others for a generator it does not have yet would seed the others.
    generator = getattr(source, "np_random" if parts is None else "_np_random", None)
    if bits_of(generator) is not None:
        yield source, generator


def streams_of(env: Any) -> list[Any]:
    """What holds the states of an environment's own streams, and those of its action spaces, wrappers included."""
    found = [bits_of(getattr(getattr(env, "unwrapped", env), "np_random", None))]
    layer = env
    while layer is not None:
        found += [bits_of(generator) for _, generator in spaces_with_streams(layer)]
        layer = getattr(layer, "env", None)
    return list({id(bits): bits for bits in found if bits is not None}.values())


def states_of(env: Any) -> list[Any]:
    """The states of `streams_of`."""
    return [bits.state for bits in streams_of(env)]


def restore_states(env: Any, states: Sequence[Any]) -> None:
    """Let the streams of an environment be as `states_of` gave them.

    Raises:
        ValueError: If it has other streams.
        TypeError: Likewise.
    """
    for bits, state in zip(streams_of(env), states, strict=True):
        bits.state = state
