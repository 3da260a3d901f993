"""Pure functions of tensors: targets and losses."""

from pfrl_like.functions.bound_by_tanh import bound_by_tanh
from pfrl_like.functions.distributional import categorical_projection, even_fractions
from pfrl_like.functions.losses import (
    bootstrap_weight,
    expectile,
    half_square,
    huber,
    quantile_huber,
    quantile_huber_of_pairs,
    weighted_mean,
)
from pfrl_like.functions.lower_triangular_matrix import lower_triangular_matrix
from pfrl_like.functions.offline import exponential_weight, maximum_mean_discrepancy, over_mean_size, squared_distance
from pfrl_like.functions.returns import linked_lambda_returns, n_step_returns, rows_after
from pfrl_like.functions.rollout_returns import gae, lambda_returns, retrace, vtrace
from pfrl_like.functions.td import (
    advantage_learning_target,
    dynamic_policy_programming_target,
    persistent_advantage_learning_target,
    td_target,
)

__all__ = [
    "advantage_learning_target",
    "bootstrap_weight",
    "bound_by_tanh",
    "categorical_projection",
    "dynamic_policy_programming_target",
    "even_fractions",
    "expectile",
    "exponential_weight",
    "gae",
    "half_square",
    "huber",
    "lambda_returns",
    "linked_lambda_returns",
    "lower_triangular_matrix",
    "maximum_mean_discrepancy",
    "n_step_returns",
    "over_mean_size",
    "persistent_advantage_learning_target",
    "quantile_huber",
    "quantile_huber_of_pairs",
    "retrace",
    "rows_after",
    "squared_distance",
    "td_target",
    "vtrace",
    "weighted_mean",
]
