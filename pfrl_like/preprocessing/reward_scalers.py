"""Scalers of rewards that are no shift and division by extremes or moments: factors, bounds, spans of returns."""

import dataclasses
from typing import Any, Self

from torch import Tensor

from pfrl_like.errors import NotFittedError
from pfrl_like.preprocessing.scaler import Scaler, check_multiplier
from pfrl_like.preprocessing.statistics import returns
from pfrl_like.utils.checks import check_flags, check_numbers


class _RewardScaler(Scaler):
    """Base of scalers of rewards whose fields are the constructor's arguments, and which have nothing to fit."""

    column = "rewards"
    multiplier: float

    def __post_init__(self) -> None:
        check_multiplier(self.multiplier)

    @property
    def fitted(self) -> bool:
        return True

    def fit(self, episodes: Any) -> Self:
        """Do nothing, so that it can stand where other scalers do."""
        return self

    def _params(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]


@dataclasses.dataclass(eq=False, repr=False)
class MultiplyRewardScaler(_RewardScaler):
    """Rewards times a number: r' = multiplier * r.

    Args:
        multiplier: The factor, not 0.

    Raises:
        ValueError: If it is 0, or not finite.
        TypeError: If it is no number.
    """

    type_name = "multiply"

    multiplier: float = 1.0

    def transform(self, x: Tensor) -> Tensor:
        return x * float(self.multiplier)

    def reverse_transform(self, x: Tensor) -> Tensor:
        return x / float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ClipRewardScaler(_RewardScaler):
    """Rewards within bounds: r' = multiplier * min(max(r, low), high). The reverse leaves what was cut as it is.

    Args:
        low: Least reward; None for no such bound.
        high: Largest reward; None for no such bound.
        multiplier: Factor of what the bounds leave, not 0.

    Raises:
        ValueError: If there is no bound, `high` is less than `low`, or a number is not finite or `multiplier` 0.
        TypeError: If one is no number.
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

    def reverse_transform(self, x: Tensor) -> Tensor:
        return x / float(self.multiplier)


@dataclasses.dataclass(eq=False, repr=False)
class ConstantShiftRewardScaler(_RewardScaler):
    """Rewards moved by a number: r' = multiplier * (r + shift), or multiplier * r + shift.

    A shift of all rewards changes what is optimal where episodes may end early.

    Args:
        shift: What is added.
        multiplier: Factor, not 0.
        multiply_first: Whether the factor comes before the shift.

    Raises:
        ValueError: If a number is not finite, or `multiplier` 0.
        TypeError: If one is no number, or `multiply_first` neither True nor False.
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
    """Rewards divided by the span of returns: r' = multiplier * r / (return_max - return_min) (arXiv:2110.06169).

    Args:
        dataset: What to fit to: a dataset or episodes.
        return_max: Largest undiscounted return of an episode.
        return_min: Smallest one.
        multiplier: Factor, not 0.

    Raises:
        ValueError: If only one of the returns is given, a dataset beside them, `return_max` is no more than
            `return_min`, or a number is not finite or `multiplier` 0; and as `fit`.
        TypeError: If one is no number; and as `fit`.
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
        """Take the largest and the smallest return of episodes; arguments and errors as of other scalers.

        Raises:
            ValueError: Also if all returns are equal, so that there is nothing to divide by.
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
