"""`isolated_rng`: a block of code that draws random numbers and leaves no trace in the streams of the run."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from pfrl_like.random_streams.streams import GlobalStreams, bits_of, spaces_with_streams


@contextlib.contextmanager
def isolated_rng(*sources: Any) -> Iterator[None]:
    """Save the random streams before a block and restore them after it, however it ends.

    These are the global streams of `random`, NumPy and torch (CPU, and CUDA if it has been initialised), and those
    of the spaces given. It costs about 0.15 ms.

    Args:
        *sources: Spaces, or environments, of which the action spaces are meant; None is ignored.
    """
    streams = GlobalStreams.now()
    restore_spaces = [_restoring(*found) for source in sources for found in spaces_with_streams(source)]
    try:
        yield
    finally:
        streams.restore()
        for restore in restore_spaces:
            restore()


def _restoring(space: Any, generator: Any) -> Callable[[], None]:
    """A function that restores the stream of a space."""
    bits = bits_of(generator)
    state = bits.state

    def restore() -> None:
        bits.state = state
        if getattr(space, "_np_random", None) is not generator:  # `seed` in the block has made a new one
            space._np_random = generator

    return restore
