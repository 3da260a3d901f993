"""How a loss moves parameters."""

from pfrl_like.optimizers.gradient_step import GradientStep as GradientStep
