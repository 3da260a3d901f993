"""Scorers: functions `scorer(algo, episodes)` that score an algorithm or dynamics model; larger scores are better."""

from pfrl_like.metrics.comparer import compare_continuous_action_diff, compare_discrete_action_match
from pfrl_like.metrics.scorer import (
    average_value_estimation_scorer,
    continuous_action_diff_scorer,
    discounted_sum_of_advantage_scorer,
    discrete_action_match_scorer,
    dynamics_observation_prediction_error_scorer,
    dynamics_prediction_variance_scorer,
    dynamics_reward_prediction_error_scorer,
    evaluate_on_environment,
    initial_state_value_estimation_scorer,
    soft_opc_scorer,
    td_error_scorer,
    value_estimation_std_scorer,
)

__all__ = [
    "average_value_estimation_scorer", "compare_continuous_action_diff", "compare_discrete_action_match",
    "continuous_action_diff_scorer", "discounted_sum_of_advantage_scorer", "discrete_action_match_scorer",
    "dynamics_observation_prediction_error_scorer", "dynamics_prediction_variance_scorer",
    "dynamics_reward_prediction_error_scorer", "evaluate_on_environment", "initial_state_value_estimation_scorer",
    "soft_opc_scorer", "td_error_scorer", "value_estimation_std_scorer",
]  # fmt: skip
