"""Pure functions of tensors: targets and losses."""

from pfrl_like.functions.bound_by_tanh import bound_by_tanh as bound_by_tanh
from pfrl_like.functions.distributional import categorical_projection as categorical_projection
from pfrl_like.functions.distributional import even_fractions as even_fractions
from pfrl_like.functions.losses import bootstrap_weight as bootstrap_weight
from pfrl_like.functions.losses import expectile as expectile
from pfrl_like.functions.losses import half_square as half_square
from pfrl_like.functions.losses import huber as huber
from pfrl_like.functions.losses import quantile_huber as quantile_huber
from pfrl_like.functions.losses import quantile_huber_of_pairs as quantile_huber_of_pairs
from pfrl_like.functions.losses import weighted_mean as weighted_mean
from pfrl_like.functions.lower_triangular_matrix import lower_triangular_matrix as lower_triangular_matrix
from pfrl_like.functions.offline import exponential_weight as exponential_weight
from pfrl_like.functions.offline import maximum_mean_discrepancy as maximum_mean_discrepancy
from pfrl_like.functions.offline import over_mean_size as over_mean_size
from pfrl_like.functions.offline import squared_distance as squared_distance
from pfrl_like.functions.returns import linked_lambda_returns as linked_lambda_returns
from pfrl_like.functions.returns import n_step_returns as n_step_returns
from pfrl_like.functions.returns import rows_after as rows_after
from pfrl_like.functions.rollout_returns import gae as gae
from pfrl_like.functions.rollout_returns import lambda_returns as lambda_returns
from pfrl_like.functions.rollout_returns import retrace as retrace
from pfrl_like.functions.rollout_returns import vtrace as vtrace
from pfrl_like.functions.td import advantage_learning_target as advantage_learning_target
from pfrl_like.functions.td import dynamic_policy_programming_target as dynamic_policy_programming_target
from pfrl_like.functions.td import persistent_advantage_learning_target as persistent_advantage_learning_target
from pfrl_like.functions.td import td_target as td_target
