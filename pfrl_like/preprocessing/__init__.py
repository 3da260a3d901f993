"""Scalers of observations, actions and rewards; a policy contains its scalers and is exported with them."""

from pfrl_like.preprocessing.scaler import Scaler
from pfrl_like.preprocessing.scalers import (
    ClipRewardScaler,
    ConstantShiftRewardScaler,
    MinMaxActionScaler,
    MinMaxRewardScaler,
    MinMaxScaler,
    MultiplyRewardScaler,
    PixelScaler,
    ReturnBasedRewardScaler,
    StandardActionScaler,
    StandardRewardScaler,
    StandardScaler,
    make_scaler,
)

__all__ = [
    "ClipRewardScaler", "ConstantShiftRewardScaler", "MinMaxActionScaler", "MinMaxRewardScaler", "MinMaxScaler",
    "MultiplyRewardScaler", "PixelScaler", "ReturnBasedRewardScaler", "Scaler", "StandardActionScaler",
    "StandardRewardScaler", "StandardScaler", "make_scaler",
]  # fmt: skip
