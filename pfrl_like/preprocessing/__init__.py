"""Scalers of observations, actions and rewards. A policy contains its scalers, also after export."""

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
