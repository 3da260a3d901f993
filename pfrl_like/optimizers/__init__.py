"""How a loss moves parameters."""

from pfrl_like.optimizers.gradient_step import GradientStep as GradientStep
from pfrl_like.optimizers.rmsprop_eps_inside_sqrt import RMSpropEpsInsideSqrt as RMSpropEpsInsideSqrt
from pfrl_like.optimizers.shared_state import SharedRMSpropEpsInsideSqrt as SharedRMSpropEpsInsideSqrt
from pfrl_like.optimizers.shared_state import share_state as share_state
