"""Pure functions of tensors: losses, targets and returns."""

from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.functions.losses import (
    advantage_learning_target,
    bootstrap_weight,
    categorical_projection,
    dynamic_policy_programming_target,
    even_fractions,
    expectile,
    exponential_weight,
    half_square,
    huber,
    maximum_mean_discrepancy,
    over_mean_size,
    persistent_advantage_learning_target,
    quantile_huber,
    quantile_huber_of_pairs,
    squared_distance,
    td_target,
    weighted_mean,
)
from pfrl_like.functions.lower_triangular_matrix import lower_triangular_matrix
from pfrl_like.functions.returns import (
    gae,
    lambda_returns,
    linked_lambda_returns,
    n_step_returns,
    retrace,
    rows_after,
    vtrace,
)

__all__ = [
    "advantage_learning_target", "bootstrap_weight", "bound_by_tanh", "categorical_projection",
    "dynamic_policy_programming_target", "even_fractions", "expectile", "exponential_weight", "gae", "half_square",
    "huber", "lambda_returns", "linked_lambda_returns", "lower_triangular_matrix", "maximum_mean_discrepancy",
    "n_step_returns", "over_mean_size", "persistent_advantage_learning_target", "quantile_huber",
    "quantile_huber_of_pairs", "retrace", "rows_after", "squared_distance", "td_target", "vtrace", "weighted_mean",
]  # fmt: skip
