"""`isolated_rng`: a block of code that draws random numbers and leaves no trace in the streams of the run."""

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch


@contextlib.contextmanager
def isolated_rng(*sources: Any) -> Iterator[None]:
    """Save the random streams before a block and restore them after it, however it ends.

    These are the global streams of `random`, NumPy and torch (CPU, and CUDA if it has been initialised), and those
    of the spaces given. It costs about 0.15 ms.

    Args:
        *sources: Spaces, or environments, of which the action spaces are meant; None is ignored.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    torch_state = torch.get_rng_state()
    uses_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda_states = torch.cuda.get_rng_state_all() if uses_cuda else None
    restore_spaces = [restore for source in sources for restore in _save_spaces(source)]
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(torch_state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)
        for restore in restore_spaces:
            restore()


def _save_spaces(source: Any) -> Iterator[Callable[[], None]]:
    """A function that restores the stream of each space found in `source`."""
    if source is None:
        return
    if not hasattr(source, "sample"):  # an environment
        for name in ("action_space", "single_action_space"):
            yield from _save_spaces(getattr(source, name, None))
        return
    parts = getattr(source, "spaces", None)
    if not isinstance(parts, Mapping | tuple | list):
        parts = None  # those of something else, such as a mock
    if parts is not None:
        for part in parts.values() if isinstance(parts, Mapping) else parts:
            yield from _save_spaces(part)
    # Asking a space made of others for a generator it does not have yet would seed the others.
    generator = getattr(source, "np_random" if parts is None else "_np_random", None)
    bits = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)  # RandomState: _
    if bits is not None:
        state = bits.state

        def restore() -> None:
            bits.state = state
            if getattr(source, "_np_random", None) is not generator:  # `seed` in the block has made a new one
                source._np_random = generator

        yield restore
