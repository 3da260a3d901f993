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
    of the spaces given. About 40 microseconds, and 5 for each space.

    Args:
        *sources: Spaces, or environments, of which the action spaces are meant; None is ignored.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state(legacy=False)
    torch_state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
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
    if parts is not None:
        for part in parts.values() if isinstance(parts, Mapping) else parts:
            yield from _save_spaces(part)
    generator = getattr(source, "np_random", None)
    if isinstance(generator, np.random.Generator):
        yield _restorer(source, generator, generator.bit_generator, "state")
    elif isinstance(generator, np.random.RandomState):  # gym before 0.22
        state = generator.get_state()
        yield lambda: (_put_back(source, generator), generator.set_state(state))[1]


def _restorer(space: Any, generator: Any, holder: Any, attribute: str) -> Callable[[], None]:
    state = getattr(holder, attribute)

    def restore() -> None:
        _put_back(space, generator)
        setattr(holder, attribute, state)

    return restore


def _put_back(space: Any, generator: Any) -> None:
    """The generator itself, for `space.seed` makes a new one."""
    if getattr(space, "_np_random", None) is not generator:
        space._np_random = generator
