"""Last layers that make networks policies."""

from pfrl_like.policies.deterministic_policy import DeterministicHead
from pfrl_like.policies.gaussian_policy import (
    GaussianHeadWithDiagonalCovariance,
    GaussianHeadWithFixedCovariance,
    GaussianHeadWithStateIndependentCovariance,
)
from pfrl_like.policies.multi_categorical_policy import MultiCategoricalHead
from pfrl_like.policies.softmax_policy import SoftmaxCategoricalHead
from pfrl_like.policies.squashed_gaussian_policy import SquashedGaussianHead

__all__ = [
    "DeterministicHead",
    "GaussianHeadWithDiagonalCovariance",
    "GaussianHeadWithFixedCovariance",
    "GaussianHeadWithStateIndependentCovariance",
    "MultiCategoricalHead",
    "SoftmaxCategoricalHead",
    "SquashedGaussianHead",
]
