"""Probability distributions of actions, and operations on these and on torch's distributions."""

from pfrl_like.distributions import operations as kl
from pfrl_like.distributions.categorical import Categorical, MaskedCategorical, ProductOfCategoricals
from pfrl_like.distributions.delta import Delta, DeltaVector
from pfrl_like.distributions.gaussian import ClippedGaussian, DiagonalGaussian, SquashedGaussian
from pfrl_like.distributions.operations import (
    detached,
    log_prob_and_entropy,
    masked,
    parameters_of,
    rows_of,
    rsample_with_log_prob,
    with_parameters,
)
from pfrl_like.utils.mode_of_distribution import mode_of_distribution

#: Short alias of `pfrl_like.utils.mode_of_distribution`.
mode_of = mode_of_distribution

__all__ = [
    "Categorical", "ClippedGaussian", "Delta", "DeltaVector", "DiagonalGaussian", "MaskedCategorical",
    "ProductOfCategoricals", "SquashedGaussian", "detached", "kl", "log_prob_and_entropy", "masked", "mode_of",
    "mode_of_distribution", "parameters_of", "rows_of", "rsample_with_log_prob", "with_parameters",
]  # fmt: skip
