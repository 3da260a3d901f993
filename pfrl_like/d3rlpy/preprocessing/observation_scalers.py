"""Scalers of observations and of actions."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from pfrl_like import preprocessing
from pfrl_like.d3rlpy.preprocessing.base import Scaler
from pfrl_like.d3rlpy.types import NDArray


@dataclasses.dataclass
class ObservationScaler(Scaler, family=True):
    """Base class of scalers of observations."""

    column = "observation"


@dataclasses.dataclass
class PixelObservationScaler(ObservationScaler, type_name="pixel"):
    """Scales pixels to [0, 1]: x' = x / 255."""

    library = preprocessing.PixelScaler

    def reverse_transform(self, x: Tensor) -> Tensor:
        """Return the pixels 255 x, rounded down to int64."""
        return super().reverse_transform(x).long()

    def reverse_transform_numpy(self, x: NDArray) -> NDArray:
        """Return the pixels 255 x, not rounded."""
        return self._on_array(super().reverse_transform, x)


@dataclasses.dataclass
class MinMaxObservationScaler(ObservationScaler, type_name="min_max"):
    """Scales observations to [-1, 1]: x' = 2 (x - minimum) / (maximum - minimum) - 1, and 0 for a constant entry.

    Args:
        minimum: Minimum of each entry, in the shape of one observation. None before the scaler is fitted.
        maximum: Maximum of each entry, in the shape of one observation. None before the scaler is fitted.
    """

    library = preprocessing.MinMaxActionScaler  # to [-1, 1], as observations of d3rlpy 2
    statistics = ("minimum", "maximum")

    minimum: NDArray | None = None
    maximum: NDArray | None = None


@dataclasses.dataclass
class StandardObservationScaler(ObservationScaler, type_name="standard"):
    """Scales observations to mean 0 and standard deviation 1: x' = (x - mean) / (std + eps).

    Args:
        mean: Mean of each entry, in the shape of one observation. None before the scaler is fitted.
        std: Population standard deviation of each entry. None before the scaler is fitted.
        eps: Number that is added to the standard deviation.
    """

    library = preprocessing.StandardScaler
    statistics = ("mean", "std")

    mean: NDArray | None = None
    std: NDArray | None = None
    eps: float = 1e-3


@dataclasses.dataclass
class TupleObservationScaler(ObservationScaler, type_name="tuple"):
    """Scales each part of tuple observations with a scaler of its own.

    Args:
        observation_scalers: One scaler for each part.
    """

    observation_scalers: Sequence[ObservationScaler] = dataclasses.field(default_factory=list)
    statistics = ("observation_scalers",)

    @property
    def built(self) -> bool:
        """True if all scalers have their statistics."""
        return all(scaler.built for scaler in self.observation_scalers)

    def __post_init__(self) -> None:
        self.observation_scalers = list(self.observation_scalers)

    def fit_rows(self, rows: Iterable[Any]) -> None:
        """Fit each scaler to its part. `rows` contains a list of arrays, one for each part, for each episode."""
        for scaler, part in zip(self.observation_scalers, zip(*rows, strict=True), strict=True):
            if scaler.statistics:
                scaler.fit_rows(part)

    def fit_with_env(self, env: Any) -> None:
        """Fit each scaler to its part of the environment's tuple space."""
        for scaler, space in zip(self.observation_scalers, env.observation_space, strict=True):
            scaler.fit_with_env(_Space(space))

    def transform(self, x: Any) -> Any:
        """Return the scaled parts, a list."""
        return self._each("transform", x)

    def reverse_transform(self, x: Any) -> Any:
        """Return the parts that `transform` scales to `x`, a list."""
        return self._each("reverse_transform", x)

    def transform_numpy(self, x: Any) -> Any:
        """Return the scaled parts, a list of arrays."""
        return self._each("transform_numpy", x)

    def reverse_transform_numpy(self, x: Any) -> Any:
        """Return the parts that `transform_numpy` scales to `x`, a list of arrays."""
        return self._each("reverse_transform_numpy", x)

    def _each(self, method: str, x: Sequence[Any]) -> list[Any]:
        pairs = zip(self.observation_scalers, x, strict=True)
        return [getattr(scaler, method)(part) for scaler, part in pairs]


class _Space:
    """Object with the observation space of one part, in place of an environment."""

    def __init__(self, observation_space: Any) -> None:
        self.observation_space = observation_space


@dataclasses.dataclass
class ActionScaler(Scaler, family=True):
    """Base class of scalers of actions."""

    column = "action"


@dataclasses.dataclass
class MinMaxActionScaler(ActionScaler, type_name="min_max"):
    """Scales actions to [-1, 1]: a' = 2 (a - minimum) / (maximum - minimum) - 1, and 0 for a constant entry.

    Args:
        minimum: Minimum of each entry, in the shape of one action. None before the scaler is fitted.
        maximum: Maximum of each entry, in the shape of one action. None before the scaler is fitted.
    """

    library = preprocessing.MinMaxActionScaler
    statistics = ("minimum", "maximum")

    minimum: NDArray | None = None
    maximum: NDArray | None = None
