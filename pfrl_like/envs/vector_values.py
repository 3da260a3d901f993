"""What PFRL's vector environments take and return, in one form for all of them."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.errors import EnvError


class Rows(tuple[Any, ...]):
    """Observations of several environments that lie in one array; a tuple of its rows.

    Attributes:
        array: The array, shape [num_envs, ...].
    """

    array: NDArray[Any]

    @classmethod
    def of(cls, array: NDArray[Any]) -> "Rows":
        """The rows of an array."""
        rows = cls(array)
        rows.array = array
        return rows


def join_steps(results: Sequence[Any]) -> tuple[Any, ...]:
    """Turn the results of `step` of each environment into one tuple of tuples.

    Raises:
        EnvError: If they are not all four or all five values.
    """
    lengths = {len(result) if isinstance(result, tuple | list) else 0 for result in results}
    if lengths not in ({4}, {5}):
        raise EnvError(f"the environments' steps returned {sorted(lengths)} values, expected all 4 or all 5")
    return tuple(zip(*results, strict=True))


def cut_step(obs: Any, reason: str, n_values: int) -> tuple[Any, ...]:
    """A step, in the form of four or five values, that ends an episode because its environment was lost.

    Args:
        obs: Its last observation.
        reason: Why.
        n_values: The form.
    """
    info = {"worker_restarted": reason, "needs_reset": True}
    return (obs, 0.0, False, info) if n_values == 4 else (obs, 0.0, False, True, info)


def skip_mask(mask: Any, num_envs: int) -> list[bool]:
    """Check the mask of a `reset`: True where an environment is left alone.

    Raises:
        ValueError: If its length is not the number of environments.
    """
    if mask is None:
        return [False] * num_envs
    if np.shape(mask) != (num_envs,):
        raise ValueError(f"mask has shape {np.shape(mask)}, expected one bool for each of {num_envs} environments")
    return [bool(skip) for skip in mask]


def check_action_count(actions: Any, num_envs: int) -> None:
    """Refuse a wrong number of actions with a `ValueError`."""
    if len(actions) != num_envs:
        raise ValueError(f"actions has length {len(actions)}, expected one action for each of {num_envs} environments")


def seed_list(seeds: Any, num_envs: int) -> list[int | None]:
    """One seed for each environment.

    Args:
        seeds: A sequence of integers (or None where an environment is not to be seeded), one integer for all, or None.
        num_envs: Number of environments.

    Raises:
        ValueError: If the length does not fit.
        TypeError: If it holds something else.
    """
    if seeds is None:
        return [None] * num_envs
    if not isinstance(seeds, Iterable):
        return [_as_int(seeds)] * num_envs
    listed = list(seeds)
    if len(listed) != num_envs:
        raise ValueError(f"seeds has length {len(listed)}, expected one seed for each of {num_envs} environments")
    return [None if seed is None else _as_int(seed) for seed in listed]


def _as_int(seed: Any) -> int:
    try:
        return operator.index(seed)
    except TypeError:
        raise TypeError(f"seeds holds {seed!r} ({type(seed).__name__}), expected integers") from None
