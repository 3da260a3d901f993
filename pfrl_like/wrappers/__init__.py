"""Wrappers of environments. `reset` and `step` return as many values as in the wrapped environment."""

from pfrl_like.wrappers import atari_wrappers
from pfrl_like.wrappers.cast_observation import CastObservation, CastObservationToFloat32
from pfrl_like.wrappers.continuing_time_limit import ContinuingTimeLimit
from pfrl_like.wrappers.monitor import Monitor
from pfrl_like.wrappers.normalize_action_space import NormalizeActionSpace
from pfrl_like.wrappers.randomize_action import RandomizeAction
from pfrl_like.wrappers.render import Render
from pfrl_like.wrappers.scale_reward import ScaleReward
from pfrl_like.wrappers.select_features import SelectFeatures
from pfrl_like.wrappers.vector_frame_stack import VectorEnvWrapper, VectorFrameStack
from pfrl_like.wrappers.wrapper import Wrapper

__all__ = [
    "CastObservation", "CastObservationToFloat32", "ContinuingTimeLimit", "Monitor", "NormalizeActionSpace",
    "RandomizeAction", "Render", "ScaleReward", "SelectFeatures", "VectorEnvWrapper", "VectorFrameStack", "Wrapper",
    "atari_wrappers",
]  # fmt: skip
