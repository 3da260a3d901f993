"""Scalers of observations, actions and rewards, and `make_scaler`, which makes a scaler from its name."""

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
    """Base class of reward scalers that are dataclasses: the fields are the constructor's arguments."""

    column = "rewards"
    multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.multiplier)

    @property
    def fitted(self) -> bool:
        return True

    def fit(self, episodes: Any) -> Self:
        """Return the scaler unchanged, because this scaler has no statistics."""
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
        ValueError: If `multiplier` is 0 or not finite.
        TypeError: If `multiplier` is not a number.
    """

    type_name = "multiply"

    multiplier: float = 1.0

    def transform(self, x: Tensor) -> Tensor:
        return x * float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ClipRewardScaler(_RewardScaler):
    """Clips rewards: r' = multiplier * min(max(r, low), high). The inverse does not undo the clipping.

    Args:
        low: Lower bound of the reward. If None, there is no lower bound.
        high: Upper bound of the reward. If None, there is no upper bound.
        multiplier: Factor by which the clipped rewards are multiplied, not 0.

    Raises:
        ValueError: If `low` and `high` are None, `high` is less than `low`, an argument is not finite, or `multiplier`
            is 0.
        TypeError: If an argument is not a number.
    """

    type_name = "clip"

    low: float | None = None
    high: float | None = None
    multiplier: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        bounds: Any = {name: bound for name, bound in (("low", self.low), ("high", self.high)) if bound is not None}
        check_numbers(**bounds)
        if not bounds:
            raise ValueError("low and high are None, expected a bound, as in ClipRewardScaler(low=-1.0)")
        if self.low is not None and self.high is not None and self.high < self.low:
            raise ValueError(f"high is {self.high}, expected no less than low, which is {self.low}")

    def transform(self, x: Tensor) -> Tensor:
        return x.clamp(self.low, self.high) * float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ConstantShiftRewardScaler(_RewardScaler):
    """Adds a number to rewards: r' = multiplier * (r + shift), or multiplier * r + shift if `multiply_first`.

    If episodes can end early, adding a number to all rewards may change the optimal policy.

    Args:
        shift: Number that is added to the rewards.
        multiplier: Factor, not 0.
        multiply_first: True to multiply before the addition, False to multiply after the addition.

    Raises:
        ValueError: If an argument is not finite, or `multiplier` is 0.
        TypeError: If `shift` or `multiplier` is not a number, or `multiply_first` is not a bool.
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
        dataset: A dataset or episodes, whose returns are used. If None, the arguments below are used.
        return_max: Maximum undiscounted return of an episode.
        return_min: Minimum undiscounted return of an episode.
        multiplier: Factor, not 0.

    Raises:
        ValueError: If only one of the returns is passed, if returns are passed together with a dataset, if `return_max`
            is not above `return_min`, if an argument is not finite, or if `multiplier` is 0. Also the errors of `fit`.
        TypeError: If an argument is not a number. Also the errors of `fit`.
    """

    type_name = "return"

    dataset: dataclasses.InitVar[Any] = None
    return_max: float | None = None
    return_min: float | None = None
    multiplier: float = 1.0

    def __post_init__(self, dataset: Any) -> None:
        super().__post_init__()
        bounds = [each for each in (self.return_max, self.return_min) if each is not None]
        if len(bounds) == 1 or (bounds and dataset is not None):
            raise ValueError(f"{type(self).__name__} takes either a dataset or return_max and return_min")
        if bounds:
            self._store(*bounds)
        elif dataset is not None:
            self.fit(dataset)

    @property
    def fitted(self) -> bool:
        return self.return_max is not None

    def fit(self, episodes: Any) -> Self:
        """Store the maximum and the minimum return of episodes. `Scaler.fit` documents arguments and other errors.

        Raises:
            ValueError: If all returns are equal, so that their range is 0.
        """
        all_returns = returns(episodes)
        return self._store(max(all_returns), min(all_returns))

    def _store(self, return_max: float, return_min: float) -> Self:
        check_numbers(return_max=return_max, return_min=return_min)
        if return_max <= return_min:
            hint = "for equal returns use a MultiplyRewardScaler"
            raise ValueError(f"return_max is {return_max}, expected more than return_min, {return_min}: {hint}")
        self.return_max, self.return_min = float(return_max), float(return_min)
        return self

    def transform(self, x: Tensor) -> Tensor:
        return x * self._factor

    def reverse_transform(self, x: Tensor) -> Tensor:
        return x / self._factor

    @property
    def _factor(self) -> float:
        if self.return_max is None or self.return_min is None:
            raise NotFittedError(f"{self!r} is not fitted: call fit, or pass statistics to the constructor")
        return float(self.multiplier / (self.return_max - self.return_min))


class PixelScaler(AffineScaler):
    """Scales pixels to [0, 1]: x' = x / 255. `reverse_transform` returns numbers that are not rounded."""

    type_name = "pixel"

    def __init__(self) -> None:
        super().__init__()

    def fit(self, episodes: Any) -> Self:
        """Return the scaler unchanged, because this scaler has no statistics."""
        return self

    def _offset_and_width(self) -> tuple[Array, Array]:
        return np.array(0.0), np.array(255.0)


def _statistic(name: str, doc: str) -> property:
    return property(lambda scaler: scaler._statistics[name], doc=doc)


class MinMaxScaler(AffineScaler):
    """Scales values to [0, 1]: x' = (x - minimum) / (maximum - minimum) for each entry.

    For a constant entry, x' is 0.

    Args:
        dataset: A dataset, episodes, or an array of rows [N, ...], whose statistics are used. If None, the arguments
            below are used.
        maximum: Maximum of each entry, in the shape of one row.
        minimum: Minimum of each entry, in the shape of one row.

    Raises:
        ValueError: If a maximum is less than its minimum. Also the errors of `fit`.
    """

    type_name = "min_max"
    span: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None) -> None:
        super().__init__(dataset, maximum=maximum, minimum=minimum)

    maximum = _statistic("maximum", "Maximum of each entry; None if the scaler is not fitted.")
    minimum = _statistic("minimum", "Minimum of each entry; None if the scaler is not fitted.")

    def fit(self, episodes: Any) -> Self:
        minimum, maximum = extremes(episodes, self.column)
        return self._store(maximum=maximum, minimum=minimum)

    def _offset_and_width(self, maximum: Array, minimum: Array) -> tuple[Array, Array]:
        if (maximum < minimum).any():
            raise ValueError(f"maximum is {maximum}, expected no less than minimum, which is {minimum}")
        low, high = self.span
        width = (maximum - minimum) / (high - low)
        return minimum - low * width, width


class StandardScaler(AffineScaler):
    """Scales to mean 0 and standard deviation 1: x' = (x - mean) / std for each entry.

    `std` is the population standard deviation. For a constant entry, x' is 0.

    Args:
        dataset: A dataset, episodes, or an array of rows [N, ...], whose statistics are used. If None, the arguments
            below are used.
        mean: Mean of each entry, in the shape of one row.
        std: Standard deviation of each entry, in the shape of one row.

    Raises:
        ValueError: If a standard deviation is negative. Also the errors of `fit`.
    """

    type_name = "standard"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None) -> None:
        super().__init__(dataset, mean=mean, std=std)

    mean = _statistic("mean", "Mean of each entry; None if the scaler is not fitted.")
    std = _statistic("std", "Standard deviation of each entry; None if the scaler is not fitted.")

    def fit(self, episodes: Any) -> Self:
        mean, std = moments(episodes, self.column)
        return self._store(mean=mean, std=std)

    def _offset_and_width(self, mean: Array, std: Array) -> tuple[Array, Array]:
        if (std < 0).any():
            raise ValueError(f"std is {std}, expected no negative number")
        return mean, std


class MinMaxActionScaler(MinMaxScaler):
    """Scales actions to [-1, 1], the output range of policies that end in tanh.

    `maximum` and `minimum` may also be the bounds of an action space.
    """

    column = "actions"
    span = (-1.0, 1.0)


class StandardActionScaler(StandardScaler):
    """Scales actions to mean 0 and standard deviation 1.

    Use `MinMaxActionScaler` for a policy that ends in tanh. With `StandardActionScaler`, such a policy can only output
    actions within one standard deviation of the mean.
    """

    column = "actions"


class MinMaxRewardScaler(MinMaxScaler):
    """Scales rewards to [0, 1].

    If episodes can end early, the subtraction of the minimum may change the optimal policy.

    Args:
        dataset: A dataset, episodes, or an array of rewards [N], whose statistics are used. If None, the arguments
            below are used.
        maximum: Maximum reward.
        minimum: Minimum reward.
        multiplier: Factor by which the scaled rewards are multiplied, not 0. For example, 10 scales rewards to [0, 10].

    Raises:
        ValueError: If the maximum is less than the minimum, or `multiplier` is 0. Also the errors of `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, maximum: Any = None, minimum: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, maximum, minimum)


class StandardRewardScaler(StandardScaler):
    """Scales rewards to mean 0 and standard deviation 1.

    If episodes can end early, the subtraction of the mean may change the optimal policy.

    Args:
        dataset: A dataset, episodes, or an array of rewards [N], whose statistics are used. If None, the arguments
            below are used.
        mean: Mean of the rewards.
        std: Standard deviation of the rewards.
        multiplier: Factor by which the scaled rewards are multiplied, not 0. For example, 10 scales rewards to a
            standard deviation of 10.

    Raises:
        ValueError: If the standard deviation is negative, or `multiplier` is 0. Also the errors of `fit`.
    """

    column = "rewards"

    def __init__(self, dataset: Any = None, mean: Any = None, std: Any = None, multiplier: float = 1.0) -> None:
        check_multiplier(multiplier)
        self.multiplier = float(multiplier)
        super().__init__(dataset, mean, std)


#: Scaler classes by name, for each array of an episode.
SCALERS: Mapping[str, Mapping[str, type[Scaler]]] = {
    "observations": {scaler.type_name: scaler for scaler in (PixelScaler, MinMaxScaler, StandardScaler)},
    "actions": {scaler.type_name: scaler for scaler in (MinMaxActionScaler, StandardActionScaler)},
    "rewards": {
        **{scaler.type_name: scaler for scaler in (MinMaxRewardScaler, StandardRewardScaler, ReturnBasedRewardScaler)},
        **{scaler.type_name: scaler for scaler in (MultiplyRewardScaler, ClipRewardScaler, ConstantShiftRewardScaler)},
    },
}


def make_scaler(scaler: Any, column: str = "observations") -> Scaler | None:
    """Return the scaler for an argument of the user.

    Args:
        scaler: A scaler, the name of a scaler, a result of `Scaler.describe`, or None. The names for observations are
            "pixel", "min_max" and "standard". The names for actions are "min_max" and "standard". The names for rewards
            are "min_max", "standard", "return", "multiply", "clip" and "shift".
        column: Values that are scaled: "observations", "actions" or "rewards".

    Returns:
        The scaler, or None if `scaler` is None. A scaler created from a name is not fitted.

    Raises:
        ValueError: If the name is unknown (the message contains the most similar name), or if the scaler scales another
            column.
        TypeError: If the argument has a different type.
    """
    if scaler is None:
        return None
    made: Scaler = build(f"the scaler of {column}", scaler, SCALERS[column], Scaler)
    if made.column != column:
        raise ValueError(f"scaler is {made!r}, which scales {made.column}, expected a scaler of {column}")
    return made
