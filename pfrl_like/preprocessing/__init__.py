"""Scalers: preprocessing that belongs to a policy and is exported with it."""

from pfrl_like.preprocessing.scaler import Scaler as Scaler
from pfrl_like.preprocessing.scalers import MinMaxActionScaler as MinMaxActionScaler
from pfrl_like.preprocessing.scalers import MinMaxRewardScaler as MinMaxRewardScaler
from pfrl_like.preprocessing.scalers import MinMaxScaler as MinMaxScaler
from pfrl_like.preprocessing.scalers import PixelScaler as PixelScaler
from pfrl_like.preprocessing.scalers import StandardActionScaler as StandardActionScaler
from pfrl_like.preprocessing.scalers import StandardRewardScaler as StandardRewardScaler
from pfrl_like.preprocessing.scalers import StandardScaler as StandardScaler
from pfrl_like.preprocessing.scalers import make_scaler as make_scaler
