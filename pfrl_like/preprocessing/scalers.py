"""Scalers of observations, actions and rewards, and a table of their names."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from pfrl_like.errors import NotFittedError
from pfrl_like.preprocessing.scaler import AffineScaler, Array, Scaler, check_multiplier, extremes, moments, returns
from pfrl_like.utils.checks import check_flags, check_numbers
from pfrl_like.utils.plain_values import build


class _RewardScaler(Scaler):
    """Base of scalers of rewards that have nothing to fit; their fields are the constructor's arguments."""

    column = "rewards"
    multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.multiplier)

    @property
    def fitted(self) -> bool:
        return True

    def fit(self, episodes: Any) -> Self:
        """Do nothing and return the scaler, for compatibility with other scalers."""
        return self

    def reverse_transform(self, x: Tensor) -> Tensor:
        return x / float(self.multiplier)

    def _params(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


@dataclasses.dataclass(eq=False, repr=False)
class MultiplyRewardScaler(_RewardScaler):
    """Multiplies rewards by a number: r' = multiplier * r.

    Args:
        multiplier: Factor, not 0.

    Raises:
        ValueError: If it is 0, or not finite.
        TypeError: If it is not a number.
    """

    type_name = "multiply"

    multiplier: float = 1.0

    def transform(self, x: Tensor) -> Tensor:
        return x * float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ClipRewardScaler(_RewardScaler):
    """Clips rewards: r' = multiplier * min(max(r, low), high). The inverse does not undo the clipping.

    Args:
        low: Least reward; None for no such bound.
        high: Largest reward; None for no such bound.
        multiplier: Factor of the clipped rewards, not 0.

    Raises:
        ValueError: If there is no bound, `high` is less than `low`, or a number is not finite or `multiplier` 0.
        TypeError: If one is not a number.
    """

    type_name = "clip"

    low: float | None = None
    high: float | None = None
    multiplier: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low is not None:
            check_numbers(low=self.low)
        if self.high is not None:
            check_numbers(high=self.high)
        if self.low is None and self.high is None:
            raise ValueError("low and high are None, expected a bound: ClipRewardScaler(low=-1.0, high=1.0)")
        if self.low is not None and self.high is not None and self.high < self.low:
            raise ValueError(f"high is {self.high}, expected no less than low, which is {self.low}")

    def transform(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) * float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ConstantShiftRewardScaler(_RewardScaler):
    """Shifts rewards by a number: r' = multiplier * (r + shift), or multiplier * r + shift.

    A shift of all rewards changes which policy is optimal where episodes may end early.

    Args:
        shift: Number to add.
        multiplier: Factor, not 0.
        multiply_first: True to multiply before the shift.

    Raises:
        ValueError: If a number is not finite, or `multiplier` 0.
        TypeError: If one is not a number, or `multiply_first` neither True nor False.
    """

    type_name = "shift"

    shift: float
    multiplier: float = 1.0
    multiply_first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(shift=self.shift)
        check_flags(multiply_first=self.multiply_first)

    def transform(self, x: Tensor) -> Tensor:
        return x * float(self.multiplier) + self._added

    def reverse_transform(self, x: Tensor) -> Tensor:
        return (x - self._added) / float(self.multiplier)

    @property
    def _added(self) -> float:
        return float(self.shift if self.multiply_first else self.shift * self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ReturnBasedRewardScaler(_RewardScaler):
    """Divides rewards by the range of returns: r' = multiplier * r / (return_max - return_min) (arXiv:2110.06169).

    Args:
        dataset: Data to fit to: a dataset or episodes.
        return_max: Largest undiscounted return of an episode.
        return_min: Smallest undiscounted return of an episode.
        multiplier: Factor, not 0.

    Raises:
        ValueError: If only one of the returns is given, or a dataset in addition, `return_max` is not above
            `return_min`, a number is not finite or `multiplier` 0; and as in `fit`.
        TypeError: If one is not a number; and as in `fit`.
    """

    type_name = "return"

    dataset: dataclasses.InitVar[Any] = None
    return_max: float | None = None
    return_min: float | None = None
    multiplier: float = 1.0

    def __post_init__(self, dataset: Any) -> None:
        super().__post_init__()
        given = [each for each in (self.return_max, self.return_min) if each is not None]
        if len(given) == 1 or (given and dataset is not None):
            raise ValueError(f"{type(self).__name__} takes either a dataset or return_max and return_min")
        if given:
            self._keep(*given)
        elif dataset is not None:
            self.fit(dataset)

    @property
    def fitted(self) -> bool:
        return self.return_max is not None

    def fit(self, episodes: Any) -> Self:
        """Compute the largest and the smallest return of episodes; see `Scaler.fit` for arguments and other errors.

        Raises:
            ValueError: Also if all returns are equal, so that their range is 0.
        """
        found = returns(episodes)
        return self._keep(max(found), min(found))

    def _keep(self, return_max: float, return_min: float) -> Self:
        check_numbers(return_max=return_max, return_min=return_min)
        if return_max <= return_min:
            raise ValueError(
                f"return_max is {return_max}, expected more than return_min, which is {return_min}: there is no span "
                "to divide by; MultiplyRewardScaler takes a factor"
            )
        self.return_max, self.return_min = float(return_max), float(return_min)
        return self

    def transform(self, x: Tensor) -> Tensor:
        return x * self._factor

    def reverse_transform(self, x: Tensor) -> Tensor:
        return x / self._factor

    @property
    def _factor(self) -> float:
        if self.return_max is None or self.return_min is None:
            raise NotFittedError(f"{self!r} has no statistics yet: call fit, or give them to the constructor")
        return float(self.multiplier / (self.return_max - self.return_min))


class PixelScaler(AffineScaler):
    """Scales pixels to [0, 1]: x' = x / 255. There is nothing to fit; the inverse is not rounded."""

    type_name = "pixel"

    def __init__(self) -> None:
        super().__init__()

    def fit(self, episodes: Any) -> Self:
        """Do nothing and return the scaler, for compatibility with other scalers."""
        return self

    def _offset_and_width(self) -> tuple[Array, Array]:
        return np.array(0.0), np.array(255.0)


def _statistic(name: str, doc: str) -> property:
    return property(lambda scaler: scaler._statistics[name], doc=doc)


class MinMaxScaler(AffineScaler):
    """Scales values between the extremes of the data to [0, 1]: x' = (x - min) / (max - min) in each entry.

    An entry that never changes is only shifted, to 0.

    Args:
        dataset: Data to fit to: a dataset, episodes, or an array of rows [N, ...].
        maximum: Largest value of each entry, in the shape of one row.
        minimum: Smallest value of each entry, in the shape of one row.

    Raises:
        ValueError: If a maximum is less than its minimum, and as in `fit`; other errors as in `fit`.
    """

    type_name = "min_max"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None) -> None:
        super().__init__(dataset, maximum=maximum, minimum=minimum)

    maximum = _statistic("maximum", "Largest value of each entry; None before there is one.")
    minimum = _statistic("minimum", "Smallest value of each entry; None before there is one.")

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
    """Scales to mean 0 and standard deviation 1: x' = (x - mean) / std in each entry, with std of the population.

    An entry that never changes is only shifted, to 0.

    Args:
        dataset: Data to fit to: a dataset, episodes, or an array of rows [N, ...].
        mean: Mean of each entry, in the shape of one row.
        std: Standard deviation of each entry, in the shape of one row.

    Raises:
        ValueError: If a standard deviation is negative, and as in `fit`; other errors as in `fit`.
    """

    type_name = "standard"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None) -> None:
        super().__init__(dataset, mean=mean, std=std)

    mean = _statistic("mean", "Mean of each entry; None before there is one.")
    std = _statistic("std", "Standard deviation of each entry; None before there is one.")

    def fit(self, episodes: Any) -> Self:
        mean, std = moments(episodes, self.column)
        return self._keep(mean=mean, std=std)

    def _offset_and_width(self, mean: Array, std: Array) -> tuple[Array, Array]:
        if (std < 0).any():
            raise ValueError(f"std is {std}, expected no negative number")
        return mean, std


class MinMaxActionScaler(MinMaxScaler):
    """Scales actions to [-1, 1], the range of policies that end in tanh, also with the bounds of an action space."""

    column = "actions"
    span = (-1.0, 1.0)


class StandardActionScaler(StandardScaler):
    """Scales actions to mean 0 and standard deviation 1.

    A policy that ends in tanh needs `MinMaxActionScaler`: with this scaler it reaches only one standard deviation
    around the mean.
    """

    column = "actions"


class MinMaxRewardScaler(MinMaxScaler):
    """Scales rewards to [0, 1]. A shift of all rewards changes which policy is optimal where episodes may end early.

    Args:
        dataset: Data to fit to: a dataset, episodes, or an array of rewards [N].
        maximum: Largest reward.
        minimum: Smallest reward.
        multiplier: Factor of the scaled rewards, not 0: with 10 the rewards lie in [0, 10].

    Raises:
        ValueError: If a maximum is less than its minimum, or `multiplier` 0, and as in `fit`; other errors as in `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, maximum, minimum)


class StandardRewardScaler(StandardScaler):
    """Scales rewards to mean 0 and standard deviation 1; see `MinMaxRewardScaler` for the effect of the shift.

    Args:
        dataset: Data to fit to: a dataset, episodes, or an array of rewards [N].
        mean: Mean of the rewards.
        std: Standard deviation of the rewards.
        multiplier: Factor of the scaled rewards, not 0: with 10 the standard deviation is 10.

    Raises:
        ValueError: If a standard deviation is negative, or `multiplier` 0, and as in `fit`; other errors as in `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, mean, std)


#: Scalers by name, for each column of an episode.
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
    """Return the scaler that a user has chosen.

    Args:
        scaler: A name ("pixel", "min_max" or "standard"; for actions and rewards not "pixel"; for rewards also
            "return", "multiply", "clip" and "shift"), a result of `Scaler.describe`, a scaler, or None.
        column: Column to scale: "observations", "actions" or "rewards".

    Returns:
        The scaler, None for None. A scaler chosen by name still has to be fitted.

    Raises:
        ValueError: On an unknown name, where the error suggests the nearest, or a scaler of another column.
        TypeError: On anything else.
    """
    if scaler is None:
        return None
    made: Scaler = build(f"the scaler of {column}", scaler, SCALERS[column], Scaler)
    if made.column != column:
        raise ValueError(f"{made!r} is a scaler of {made.column}, not of {column}")
    return made
