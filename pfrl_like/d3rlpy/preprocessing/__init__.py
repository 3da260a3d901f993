"""Scalers of observations, actions and rewards with the formulas of d3rlpy 2."""

from pfrl_like.d3rlpy.preprocessing.action_scalers import ActionScaler, MinMaxActionScaler
from pfrl_like.d3rlpy.preprocessing.base import Scaler
from pfrl_like.d3rlpy.preprocessing.observation_scalers import (
    MinMaxObservationScaler,
    ObservationScaler,
    PixelObservationScaler,
    StandardObservationScaler,
    TupleObservationScaler,
)
from pfrl_like.d3rlpy.preprocessing.reward_scalers import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MinMaxRewardScaler,
    MultiplyRewardScaler,
    ReturnBasedRewardScaler,
    RewardScaler,
    StandardRewardScaler,
)

__all__ = [
    "ActionScaler", "ClipRewardScaler", "ConstantShiftRewardScaler", "MinMaxActionScaler", "MinMaxObservationScaler",
    "MinMaxRewardScaler", "MultiplyRewardScaler", "ObservationScaler", "PixelObservationScaler",
    "ReturnBasedRewardScaler", "RewardScaler", "Scaler", "StandardObservationScaler", "StandardRewardScaler",
    "TupleObservationScaler",
]  # fmt: skip
