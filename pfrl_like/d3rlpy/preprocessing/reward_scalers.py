"""Scalers of rewards. All multiply the scaled reward by `multiplier`."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from pfrl_like import preprocessing
from pfrl_like.d3rlpy.preprocessing.base import Scaler
from pfrl_like.d3rlpy.types import NDArray


@dataclasses.dataclass
class RewardScaler(Scaler, family=True):
    """Base class of scalers of rewards."""

    column = "reward"

    def fit_rows(self, rows: Iterable[NDArray]) -> None:
        """Fit the scaler to the rewards of episodes, arrays [T, 1]."""
        super().fit_rows(rewards.reshape(-1) for rewards in rows)

    def fit_with_env(self, env: Any) -> None:
        """Change nothing, because an environment has no bounds of rewards."""


@dataclasses.dataclass
class MultiplyRewardScaler(RewardScaler, type_name="multiply"):
    """Multiplies rewards by a number: r' = multiplier * r.

    Args:
        multiplier: Factor, not 0.
    """

    library = preprocessing.MultiplyRewardScaler

    multiplier: float = 1.0


@dataclasses.dataclass
class ClipRewardScaler(RewardScaler, type_name="clip"):
    """Clips rewards: r' = multiplier * min(max(r, low), high). The inverse does not undo the clipping.

    Args:
        low: Lower bound of the reward. If None, there is no lower bound.
        high: Upper bound of the reward. If None, there is no upper bound.
        multiplier: Factor by which the clipped rewards are multiplied, not 0.
    """

    library = preprocessing.ClipRewardScaler

    low: float | None = None
    high: float | None = None
    multiplier: float = 1.0


@dataclasses.dataclass
class MinMaxRewardScaler(RewardScaler, type_name="min_max"):
    """Scales rewards to [0, multiplier]: r' = multiplier * (r - minimum) / (maximum - minimum).

    Args:
        minimum: Minimum reward. None before the scaler is fitted.
        maximum: Maximum reward. None before the scaler is fitted.
        multiplier: Factor by which the scaled rewards are multiplied, not 0.
    """

    library = preprocessing.MinMaxRewardScaler
    statistics = ("minimum", "maximum")

    minimum: float | None = None
    maximum: float | None = None
    multiplier: float = 1.0


@dataclasses.dataclass
class StandardRewardScaler(RewardScaler, type_name="standard"):
    """Scales rewards to mean 0 and standard deviation `multiplier`: r' = multiplier * (r - mean) / (std + eps).

    Args:
        mean: Mean of the rewards. None before the scaler is fitted.
        std: Population standard deviation of the rewards. None before the scaler is fitted.
        eps: Number that is added to the standard deviation.
        multiplier: Factor by which the scaled rewards are multiplied, not 0.
    """

    library = preprocessing.StandardRewardScaler
    statistics = ("mean", "std")

    mean: float | None = None
    std: float | None = None
    eps: float = 1e-3
    multiplier: float = 1.0


@dataclasses.dataclass
class ReturnBasedRewardScaler(RewardScaler, type_name="return"):
    """Divides rewards by the range of returns: r' = multiplier * r / (return_max - return_min) (arXiv:2110.06169).

    Args:
        return_max: Maximum return of an episode. None before the scaler is fitted.
        return_min: Minimum return of an episode. None before the scaler is fitted.
        multiplier: Factor by which the scaled rewards are multiplied, not 0.
    """

    library = preprocessing.ReturnBasedRewardScaler
    statistics = ("return_max", "return_min")

    return_max: float | None = None
    return_min: float | None = None
    multiplier: float = 1.0


@dataclasses.dataclass
class ConstantShiftRewardScaler(RewardScaler, type_name="shift"):
    """Adds a number to rewards: r' = multiplier * (r + shift), or multiplier * r + shift if `multiply_first`.

    Args:
        shift: Number that is added to the rewards.
        multiplier: Factor, not 0.
        multiply_first: True to multiply before the addition, False to multiply after the addition.
    """

    library = preprocessing.ConstantShiftRewardScaler

    shift: float
    multiplier: float = 1.0
    multiply_first: bool = False
