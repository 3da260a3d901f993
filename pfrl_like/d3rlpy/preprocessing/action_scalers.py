"""Scalers of actions."""

import dataclasses

from pfrl_like import preprocessing
from pfrl_like.d3rlpy.preprocessing.base import Scaler
from pfrl_like.d3rlpy.types import NDArray


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
