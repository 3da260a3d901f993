"""What explorers that draw random numbers have in common."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.explorer import Explorer
from pfrl_like.random_streams.streams import get_rng_state, plain_state, set_rng_state
from pfrl_like.utils.random import RandomSource, check_rng


class RandomExplorer(Explorer):
    """Base of explorers with a source of randomness.

    Args:
        rng: NumPy generator to draw from; None is the global NumPy stream, looked up at every draw.

    Raises:
        TypeError: If `rng` is something else.
    """

    def __init__(self, rng: RandomSource = None) -> None:
        check_rng(rng)
        self.rng = rng

    @property
    def source(self) -> Any:
        """What to call `random` and `normal` of."""
        return np.random if self.rng is None else self.rng

    def state_dict(self) -> dict[str, Any]:
        """The state of the explorer's own generator, if it has one."""
        return {} if self.rng is None else {"rng": plain_state(get_rng_state(self.rng))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave.

        Raises:
            ValueError: If it comes from another kind of explorer, or one of the two draws from the global stream.
        """
        state = dict(state)
        rng = state.pop("rng", None)
        super().load_state_dict(state)
        set_rng_state(self.rng, rng)


def active_rows(active: Any, k: int) -> NDArray[np.int64]:
    """Indices of the environments that act, of k."""
    return np.arange(k) if active is None else np.flatnonzero(active)


def continuous(explorer: Explorer, greedy_actions: Any) -> NDArray[Any]:
    """The greedy actions as an array that noise can be added to.

    Raises:
        TypeError: If they are integers.
    """
    actions = np.asarray(greedy_actions)
    if actions.dtype.kind != "f":
        raise TypeError(
            f"greedy actions have dtype {actions.dtype}, but {type(explorer).__name__} adds noise to floating-point "
            "ones: for discrete actions use one of the epsilon-greedy explorers or Boltzmann"
        )
    return actions
