"""Gradient steps and optimisers."""

from pfrl_like.optimizers.gradient_step import GradientStep
from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt, SharedRMSpropEpsInsideSqrt, share_state

__all__ = ["GradientStep", "RMSpropEpsInsideSqrt", "SharedRMSpropEpsInsideSqrt", "share_state"]
