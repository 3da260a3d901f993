"""d3rlpy 2's path of the scalers of actions."""

from pfrl_like.d3rlpy.preprocessing.observation_scalers import ActionScaler, MinMaxActionScaler

__all__ = ["ActionScaler", "MinMaxActionScaler"]
