"""The state of a NumPy generator of either kind."""

from typing import Any

import numpy as np

from pfrl_like.utils.random import RandomSource


def get_rng_state(rng: RandomSource) -> dict[str, Any] | None:
    """The state of a generator, as dicts of numbers, text and arrays; None for the global stream (None)."""
    if rng is None:
        return None
    return dict(rng.bit_generator.state if isinstance(rng, np.random.Generator) else rng.get_state(legacy=False))


def legacy_rng(state: Any) -> np.random.RandomState | None:
    """A `RandomState` of which `get_rng_state` gave a state; None for None.

    Raises:
        ValueError: If it is the state of another kind of generator.
    """
    rng = None if state is None else np.random.RandomState()
    set_rng_state(rng, state)
    return rng


def set_rng_state(rng: RandomSource, state: Any) -> None:
    """Put back what `get_rng_state` gave, also with lists for arrays.

    Raises:
        ValueError: If it is the state of another kind of generator, or if just one of the two is the global stream.
    """
    if (rng is None) != (state is None):
        raise ValueError("its rng does not fit: only one of the two draws from the global stream (rng=None)")
    try:
        if isinstance(rng, np.random.Generator):
            rng.bit_generator.state = state
        elif rng is not None:
            rng.set_state(state)
    except (ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise ValueError(f"its rng does not fit: {error}") from error
