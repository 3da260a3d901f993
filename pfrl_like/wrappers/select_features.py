"""Wrapper that keeps some numbers of a vector observation."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pfrl_like.utils.checks import check_counts, check_numbers
from pfrl_like.utils.env_values import box_class, space_kind
from pfrl_like.wrappers.wrapper import Wrapper


class SelectFeatures(Wrapper):
    """Keep some numbers of vector observations, each times a factor. Without velocities, a task needs a memory.

    Args:
        env: Environment with a Box of one axis and of floats as observation space.
        indices: Indices of the numbers that are kept, in the order of the new observations.
        factors: Factor of each number. None for numbers as they are.

    Raises:
        ValueError: If the observation space is another one, an index is not in it, the lengths differ, or a factor is
            0 or not finite in the dtype of the observations.
        TypeError: If `indices` or `factors` is not a sequence, an index is not an integer, or a factor is not a number.
    """

    def __init__(self, env: Any, indices: Sequence[int], factors: Sequence[float] | None = None) -> None:
        super().__init__(env)
        space = env.observation_space
        if space_kind(space) != "box" or len(space.shape) != 1 or space.dtype.kind != "f":
            raise ValueError(f"env has the observation space {space}, expected a Box of one axis and of floats")
        for name, values in {"indices": indices, "factors": [] if factors is None else factors}.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise TypeError(f"{name} is {values!r:.80} ({type(values).__name__}), expected a list of numbers")
        for index in indices:
            check_counts(0, indices=index)
        if len(indices) == 0 or max(indices) >= space.shape[0]:
            raise ValueError(f"indices is {indices!r}, expected at least one, from 0 to {space.shape[0] - 1}")
        factors = [1.0] * len(indices) if factors is None else factors
        for factor in factors:
            check_numbers(factors=factor)
        with np.errstate(over="ignore", under="ignore"):  # the error below names the factors
            self.indices, self.factors = np.array(indices), np.array(factors, space.dtype)
        if len(factors) != len(indices) or not (np.isfinite(self.factors) & (self.factors != 0)).all():
            expected = f"{len(indices)} numbers of {space.dtype} other than 0, one for each index"
            raise ValueError(f"factors is {factors!r:.80}, expected {expected}")
        with np.errstate(over="ignore"):  # a bound that is too large becomes infinite
            bounds = self.observation(space.low), self.observation(space.high)
        low, high = np.minimum(*bounds), np.maximum(*bounds)  # a negative factor swaps them
        self.observation_space = box_class(space)(low, high, dtype=space.dtype.type)

    def observation(self, observation: Any) -> NDArray[Any]:
        """Return the selected numbers times their factors, [n], as a new array."""
        selected: NDArray[Any] = np.asarray(observation)[self.indices] * self.factors
        return selected
