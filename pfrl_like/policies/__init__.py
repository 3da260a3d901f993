"""Policy heads: last layers of networks that return distributions of actions."""

from pfrl_like.policies.deterministic_policy import DeterministicHead
from pfrl_like.policies.gaussian_policy import (
    GaussianHeadWithDiagonalCovariance,
    GaussianHeadWithFixedCovariance,
    GaussianHeadWithStateIndependentCovariance,
    SquashedGaussianHead,
    variance_of_log_scale,
)
from pfrl_like.policies.softmax_policy import MultiCategoricalHead, SoftmaxCategoricalHead

__all__ = [
    "DeterministicHead", "GaussianHeadWithDiagonalCovariance", "GaussianHeadWithFixedCovariance",
    "GaussianHeadWithStateIndependentCovariance", "MultiCategoricalHead", "SoftmaxCategoricalHead",
    "SquashedGaussianHead", "variance_of_log_scale",
]  # fmt: skip
