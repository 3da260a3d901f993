"""Wrappers of one environment, which return the form that the environment inside them returns."""

from pfrl_like.wrappers.cast_observation import CastObservation, CastObservationToFloat32
from pfrl_like.wrappers.monitor import Monitor
from pfrl_like.wrappers.normalize_action_space import NormalizeActionSpace
from pfrl_like.wrappers.randomize_action import RandomizeAction
from pfrl_like.wrappers.render import Render
from pfrl_like.wrappers.scale_reward import ScaleReward
from pfrl_like.wrappers.wrapper import Wrapper

__all__ = [
    "CastObservation",
    "CastObservationToFloat32",
    "Monitor",
    "NormalizeActionSpace",
    "RandomizeAction",
    "Render",
    "ScaleReward",
    "Wrapper",
]
