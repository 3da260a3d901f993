"""What explorers that draw random numbers have in common."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.explorer import Explorer
from pfrl_like.utils.random import RandomSource


class RandomExplorer(Explorer):
    """Base of explorers with a source of randomness.

    Args:
        rng: NumPy generator to draw from; None is the global NumPy stream, looked up at every draw.
    """

    def __init__(self, rng: RandomSource = None) -> None:
        self.rng = rng

    @property
    def source(self) -> Any:
        """What to call `random` and `normal` of."""
        return np.random if self.rng is None else self.rng

    def state_dict(self) -> dict[str, Any]:
        """The state of the explorer's own generator, if it has one."""
        return {} if self.rng is None else {"rng": _plain(_bits(self.rng).state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave.

        Raises:
            ValueError: If it comes from another kind of explorer, or one of the two draws from the global stream.
        """
        state = dict(state)
        saved = state.pop("rng", None)
        if (saved is None) != (self.rng is None):
            raise ValueError("state and explorer differ in whether they have an rng of their own")
        super().load_state_dict(state)
        if saved is not None:
            _bits(self.rng).state = saved


def active_rows(active: Any, k: int) -> NDArray[np.int64]:
    """Indices of the environments that act, of k."""
    return np.arange(k) if active is None else np.flatnonzero(active)


def _bits(rng: Any) -> Any:
    return rng.bit_generator if isinstance(rng, np.random.Generator) else rng._bit_generator


def _plain(state: Any) -> Any:
    """Dicts, lists and integers for the arrays and NumPy integers of a generator's state."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray | np.generic) else state
