"""Scalers of observations, actions and rewards, and their names."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from pfrl_like.preprocessing.reward_scalers import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MultiplyRewardScaler,
    ReturnBasedRewardScaler,
)
from pfrl_like.preprocessing.scaler import AffineScaler, Array, Scaler, check_multiplier
from pfrl_like.preprocessing.statistics import extremes, moments
from pfrl_like.utils.described import build


class PixelScaler(AffineScaler):
    """Pixels to [0, 1]: x' = x / 255. There is nothing to fit; the reverse is not rounded."""

    type_name = "pixel"

    def __init__(self) -> None:
        super().__init__()

    def fit(self, episodes: Any) -> Self:
        """Do nothing, so that it can stand where other scalers do."""
        return self

    def _offset_and_width(self) -> tuple[Array, Array]:
        return np.array(0.0), np.array(255.0)


class MinMaxScaler(AffineScaler):
    """What lies between the extremes of the data to [0, 1]: x' = (x - min) / (max - min) in each entry.

    An entry that never changes is only shifted, to 0.

    Args:
        dataset: What to fit to: a dataset, episodes, or an array of rows [N, ...].
        maximum: Largest value of each entry, in the shape of one row.
        minimum: Smallest value of each entry.

    Raises:
        ValueError: If a maximum is less than its minimum, and as `fit`; other errors as `fit`.
    """

    type_name = "min_max"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None) -> None:
        super().__init__(dataset, maximum=maximum, minimum=minimum)

    @property
    def maximum(self) -> Array | None:
        """Largest value of each entry; None before there is one."""
        return self._statistics["maximum"]

    @property
    def minimum(self) -> Array | None:
        """Smallest value of each entry; None before there is one."""
        return self._statistics["minimum"]

    def fit(self, episodes: Any) -> Self:
        minimum, maximum = extremes(episodes, self.column)
        return self._keep(maximum=maximum, minimum=minimum)

    def _offset_and_width(self, maximum: Array, minimum: Array) -> tuple[Array, Array]:
        if (maximum < minimum).any():
            raise ValueError(f"maximum is {maximum}, expected no less than minimum, which is {minimum}")
        low, high = self.span
        width = (maximum - minimum) / (high - low)
        return minimum - low * width, width


class StandardScaler(AffineScaler):
    """To mean 0 and standard deviation 1: x' = (x - mean) / std in each entry, std being that of the population.

    An entry that never changes is only shifted, to 0.

    Args:
        dataset: What to fit to: a dataset, episodes, or an array of rows [N, ...].
        mean: Mean of each entry, in the shape of one row.
        std: Standard deviation of each entry.

    Raises:
        ValueError: If a standard deviation is negative, and as `fit`; other errors as `fit`.
    """

    type_name = "standard"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None) -> None:
        super().__init__(dataset, mean=mean, std=std)

    @property
    def mean(self) -> Array | None:
        """Mean of each entry; None before there is one."""
        return self._statistics["mean"]

    @property
    def std(self) -> Array | None:
        """Standard deviation of each entry; None before there is one."""
        return self._statistics["std"]

    def fit(self, episodes: Any) -> Self:
        mean, std = moments(episodes, self.column)
        return self._keep(mean=mean, std=std)

    def _offset_and_width(self, mean: Array, std: Array) -> tuple[Array, Array]:
        if (std < 0).any():
            raise ValueError(f"std is {std}, expected no negative number")
        return mean, std


class MinMaxActionScaler(MinMaxScaler):
    """Actions to [-1, 1], the range of policies that end in tanh; the extremes of an action space will do, too."""

    column = "actions"
    span = (-1.0, 1.0)


class StandardActionScaler(StandardScaler):
    """Actions to mean 0 and standard deviation 1.

    A policy that ends in tanh needs `MinMaxActionScaler`: here it reaches one standard deviation around the mean only.
    """

    column = "actions"


class MinMaxRewardScaler(MinMaxScaler):
    """Rewards to [0, 1]. A shift of all rewards changes what is optimal where episodes may end early.

    Args:
        dataset: What to fit to: a dataset, episodes, or an array of rewards [N].
        maximum: Largest reward.
        minimum: Smallest reward.
        multiplier: Factor of what is scaled, not 0: with 10 the rewards lie in [0, 10].

    Raises:
        ValueError: If a maximum is less than its minimum, or `multiplier` 0, and as `fit`; other errors as `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, maximum, minimum)

    def _params(self) -> dict[str, Any]:
        return {**super()._params(), "multiplier": self.multiplier}


class StandardRewardScaler(StandardScaler):
    """Rewards to mean 0 and standard deviation 1; what a shift does, see `MinMaxRewardScaler`.

    Args:
        dataset: What to fit to: a dataset, episodes, or an array of rewards [N].
        mean: Mean of the rewards.
        std: Standard deviation of the rewards.
        multiplier: Factor of what is scaled, not 0: with 10 the standard deviation is 10.

    Raises:
        ValueError: If a standard deviation is negative, or `multiplier` 0, and as `fit`; other errors as `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, mean, std)

    def _params(self) -> dict[str, Any]:
        return {**super()._params(), "multiplier": self.multiplier}


#: Column of an episode -> the scalers of it by name.
SCALERS: Mapping[str, Mapping[str, type[Scaler]]] = {
    "observations": {scaler.type_name: scaler for scaler in (PixelScaler, MinMaxScaler, StandardScaler)},
    "actions": {scaler.type_name: scaler for scaler in (MinMaxActionScaler, StandardActionScaler)},
    "rewards": {
        scaler.type_name: scaler
        for scaler in (
            MinMaxRewardScaler,
            StandardRewardScaler,
            ReturnBasedRewardScaler,
            MultiplyRewardScaler,
            ClipRewardScaler,
            ConstantShiftRewardScaler,
        )
    },
}


def make_scaler(scaler: Any, column: str = "observations") -> Scaler | None:
    """The scaler that a user has chosen.

    Args:
        scaler: A name ("pixel", "min_max" or "standard"; no pixels among actions and rewards; of rewards also
            "return", "multiply", "clip" and "shift"), what `Scaler.describe` gave, a scaler itself, or None.
        column: What is to be scaled: "observations", "actions" or "rewards".

    Returns:
        The scaler, None for None. One chosen by name is yet to be fitted.

    Raises:
        ValueError: On an unknown name, telling the nearest, or a scaler of another column.
        TypeError: On anything else.
    """
    if scaler is None:
        return None
    made: Scaler = build(f"the scaler of {column}", scaler, SCALERS[column], Scaler)
    if made.column != column:
        raise ValueError(f"{made!r} is a scaler of {made.column}, not of {column}")
    return made
